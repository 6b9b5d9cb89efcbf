"""Which fields the rows of a map have: the columns of one mapping, as the map knows them.

A field is known by its *path*: `__key` and `this` are the whole key and value, `__key.<name>` and
`this.<name>` fields of them. Two mappings over one map meet in the paths: a field that the rows
lack is NULL, one of another type is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from runnel.errors import DataError
from runnel.sqltypes import SqlType, to_arrow

KEY = "__key"
VALUE = "this"


def is_key_path(path: str) -> bool:
    return path == KEY or path.startswith(KEY + ".")


@dataclass(frozen=True, eq=False)
class Layout:
    """The fields of rows, in the order of their columns. A store has one instance of each, so that
    they compare by identity."""

    paths: tuple[str, ...]
    types: tuple[SqlType, ...]

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """The columns of the key. They are sorted by path, so that the mappings over one map agree
        on the order."""
        return tuple(
            sorted(
                (i for i, path in enumerate(self.paths) if is_key_path(path)),
                key=lambda i: self.paths[i],
            )
        )

    @cached_property
    def key_fields(self) -> tuple[tuple[str, SqlType], ...]:
        """Paths and types of the key: what the mappings over one map must agree on."""
        return tuple((self.paths[i], self.types[i]) for i in self.keys)

    @cached_property
    def indexes(self) -> dict[str, int]:
        return {path: i for i, path in enumerate(self.paths)}

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [pa.field(path, to_arrow(t)) for path, t in zip(self.paths, self.types, strict=True)]
        )

    @cached_property
    def key_layout(self) -> Layout:
        """The key's fields alone."""
        return Layout(
            tuple(path for path, _ in self.key_fields), tuple(item for _, item in self.key_fields)
        )


def union(first: Layout, second: Layout) -> Layout | None:
    """The layout of rows of both; None where they differ in the type of a field."""
    if first is second:
        return first
    types = dict(zip(first.paths, first.types, strict=True))
    for path, item in zip(second.paths, second.types, strict=True):
        if types.setdefault(path, item) != item:
            return None
    return Layout(tuple(types), tuple(types.values()))


def select_fields(
    batch: pa.RecordBatch, stored: Layout, wanted: Layout, columns: Sequence[int]
) -> list[pa.Array]:
    """Columns of `wanted`, at `columns`, out of rows that are stored with another layout."""
    return [_field(batch, stored, wanted.paths[i], wanted.types[i]) for i in columns]


def _field(batch: pa.RecordBatch, stored: Layout, path: str, wanted: SqlType) -> pa.Array:
    index = stored.indexes.get(path)
    if index is None:
        return pa.nulls(batch.num_rows, to_arrow(wanted))
    array = batch.column(index)
    if stored.types[index] == wanted:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), to_arrow(wanted))
    raise wrong_type(path, stored.types[index], wanted)


def wrong_type(path: str, stored: SqlType, wanted: SqlType) -> DataError:
    return DataError(
        f'field "{path}" of the map is {stored}, but the mapping declares {wanted}',
        hint=f"declare the column as {stored}",
    )


def check_key(stored: Layout, wanted: Layout) -> None:
    """Fails where the mapping's key is not that of the rows."""
    if stored.key_fields == wanted.key_fields:
        return
    types = dict(stored.key_fields)
    for path, item in wanted.key_fields:
        if path in types and types[path] != item:
            raise wrong_type(path, types[path], item)
    names = [
        ", ".join(f'"{path}"' for path, _ in fields)
        for fields in (stored.key_fields, wanted.key_fields)
    ]
    raise DataError(
        f"the key of the map is {names[0]}, but the mapping declares {names[1]}",
        hint="declare the same key, or empty the map first",
    )
