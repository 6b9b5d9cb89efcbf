"""The changes of the catalog by a transaction: its statements see them, and COMMIT applies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from runnel.base.frozen import frozen
from runnel.catalog import CatalogObject, NamedText, Snapshot
from runnel.catalog import Mapping as TableMapping
from runnel.errors import TransactionException

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")

AGAIN = "ROLLBACK, and run the transaction again, from BEGIN"


@frozen
class CatalogChanges:
    """The changes of a transaction. The keys of objects are names in lower case.

    objects: the objects after the change; None: dropped.
    definitions: the definitions after the change; None: dropped.
    """

    objects: Mapping[str, CatalogObject | None]
    definitions: Mapping[tuple[str, str], NamedText | None]

    def applied(self, snapshot: Snapshot) -> Snapshot:
        """A catalog with the changes."""
        objects = _changed(snapshot.objects, self.objects)
        indexes = {
            name: index
            for name, index in snapshot.indexes.items()
            if index.table_name.lower() in objects
        }
        definitions = _changed(snapshot.definitions, self.definitions)
        return replace(snapshot, objects=objects, indexes=indexes, definitions=definitions)


class PendingCatalog:
    """The catalog of one transaction. Called under the lock of the catalog, except `applied`.

    replaced: the objects of the common catalog that it changes, by name in lower case, as they were
        at the first change; None: there was none.
    referenced: the same of the tables to which foreign keys of its tables refer.
    """

    def __init__(self) -> None:
        self.replaced: dict[str, CatalogObject | None] = {}
        self.referenced: dict[str, CatalogObject | None] = {}
        self._changes = CatalogChanges({}, {})
        self._seen: tuple[Snapshot, CatalogChanges, Snapshot] | None = None

    @property
    def changes(self) -> CatalogChanges:
        """The changes so far."""
        return self._changes

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed."""
        return not (self._changes.objects or self._changes.definitions)

    def applied(self, snapshot: Snapshot) -> Snapshot:
        """The catalog as the transaction sees it; `snapshot`: the common one."""
        changes = self._changes
        if not (changes.objects or changes.definitions):
            return snapshot
        if self._seen is None or self._seen[0] is not snapshot or self._seen[1] is not changes:
            self._seen = snapshot, changes, changes.applied(snapshot)
        return self._seen[2]

    def change(
        self,
        snapshot: Snapshot,
        put: tuple[CatalogObject, ...],
        drop: CatalogObject | None,
        definitions: Mapping[tuple[str, str], NamedText] | None,
    ) -> None:
        """Notes a change; `snapshot`: the common catalog."""
        objects, texts = dict(self._changes.objects), dict(self._changes.definitions)
        if drop is not None:
            objects[drop.name.lower()] = None
        objects |= {item.name.lower(): item for item in put}
        for name in objects:
            self.replaced.setdefault(name, snapshot.objects.get(name))
        for name in (name for item in put for name in _references(item)):
            self.referenced.setdefault(name, snapshot.objects.get(name))
        if definitions is not None:
            seen = self.applied(snapshot).definitions
            texts |= {key: None for key in seen if key not in definitions}
            texts |= {key: item for key, item in definitions.items() if seen.get(key) is not item}
        self._changes = CatalogChanges(objects, texts)

    def check(self, snapshot: Snapshot) -> None:
        """OperationalError if another statement has changed one of these objects since."""
        for name, before in {**self.referenced, **self.replaced}.items():
            now = snapshot.objects.get(name)
            if (before and before.version) != (now and now.version):
                raise _conflict(
                    f'"{name}" was changed by another statement since the transaction '
                    + ("did" if name in self.replaced else "has referred to it")
                )
        for change in self._changes.objects.values():
            if change is not None and change.schema.lower() not in ("", *snapshot.schemas):
                raise _conflict(f'schema "{change.schema}" was dropped by another statement')
        for existing in snapshot.objects.values():
            if existing.name.lower() not in self._changes.objects:
                self._check_references(existing)
        for key, item in self._changes.definitions.items():
            if item is not None and key in snapshot.definitions:
                raise _conflict(
                    f'{key[0]} "{item.name}" was created by another statement meanwhile'
                )

    def _check_references(self, item: CatalogObject) -> None:
        """OperationalError if a table, which the transaction has not changed, refers to one that it
        has dropped, renamed or copied."""
        for name in _references(item):
            if name in self.replaced:
                before, after = self.replaced[name], self._changes.objects.get(name)
                if after is None or _external(after) != _external(before):
                    raise _conflict(
                        f'table "{item.name}", which another statement has created, refers to '
                        f'"{name}"'
                    )


def _conflict(message: str) -> TransactionException:
    return TransactionException(message, detail="the transaction was rolled back", hint=AGAIN)


def _references(item: CatalogObject) -> list[str]:
    """The names, in lower case, of the tables to which foreign keys of a table refer."""
    definition = item.definition if isinstance(item, TableMapping) else None
    return [] if definition is None else [key.table.lower() for key in definition.foreign_keys]


def _external(item: CatalogObject | None) -> str | None:
    """The name of a table in DuckDB."""
    return item.external_name if isinstance(item, TableMapping) else None


def _changed(
    before: Mapping[_Key, _Item], changes: Mapping[_Key, _Item | None]
) -> dict[_Key, _Item]:
    found = {key: item for key, item in before.items() if key not in changes}
    return found | {key: item for key, item in changes.items() if item is not None}
