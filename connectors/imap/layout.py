"""The layout of a map's rows: the fields that one mapping has as columns.

A *path* identifies a field: `__key` and `this` are the whole key and the whole value,
`__key.<name>` and `this.<name>` are fields of them. Two mappings over one map share the fields with
equal paths. A field that the stored rows lack is NULL; a field of another type is an error.
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
class MapLayout:
    """The fields of rows, in the order of their columns. A store has one instance per layout, so
    layouts are compared by identity.

    paths: the paths of the fields.
    types: the types of the fields.
    """

    paths: tuple[str, ...]
    types: tuple[SqlType, ...]

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """The indexes of the key columns, sorted by path, so that all mappings over one map have
        the same order."""
        return tuple(
            sorted(
                (i for i, path in enumerate(self.paths) if is_key_path(path)),
                key=lambda i: self.paths[i],
            )
        )

    @cached_property
    def key_fields(self) -> tuple[tuple[str, SqlType], ...]:
        """Paths and types of the key, which must be equal for all mappings over one map."""
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
    def key_layout(self) -> MapLayout:
        """The layout of the key's fields alone."""
        return MapLayout(
            tuple(path for path, _ in self.key_fields), tuple(item for _, item in self.key_fields)
        )


def union(first: MapLayout, second: MapLayout) -> MapLayout | None:
    """The layout with the fields of both; None if a field has two types."""
    if first is second:
        return first
    types = dict(zip(first.paths, first.types, strict=True))
    for path, item in zip(second.paths, second.types, strict=True):
        if types.setdefault(path, item) != item:
            return None
    return MapLayout(tuple(types), tuple(types.values()))


def select_fields(
    batch: pa.RecordBatch, stored: MapLayout, target: MapLayout, columns: Sequence[int]
) -> list[pa.Array]:
    """The columns of the layout `target` at the indexes `columns`, from rows with the layout
    `stored`."""
    return [_field(batch, stored, target.paths[i], target.types[i]) for i in columns]


def _field(batch: pa.RecordBatch, stored: MapLayout, path: str, expected: SqlType) -> pa.Array:
    index = stored.indexes.get(path)
    if index is None:
        return pa.nulls(batch.num_rows, to_arrow(expected))
    array = batch.column(index)
    if stored.types[index] == expected:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), to_arrow(expected))
    raise wrong_type(path, stored.types[index], expected)


def wrong_type(path: str, stored: SqlType, expected: SqlType) -> DataError:
    return DataError(
        f'field "{path}" of the map is {stored}, but the mapping declares {expected}',
        hint=f"declare the column as {stored}",
    )


def check_key(stored: MapLayout, expected: MapLayout) -> None:
    """Fails if the mapping's key differs from the key of the stored rows."""
    if stored.key_fields == expected.key_fields:
        return
    types = dict(stored.key_fields)
    for path, item in expected.key_fields:
        if path in types and types[path] != item:
            raise wrong_type(path, types[path], item)
    names = [
        ", ".join(f'"{path}"' for path, _ in fields)
        for fields in (stored.key_fields, expected.key_fields)
    ]
    raise DataError(
        f"the key of the map is {names[0]}, but the mapping declares {names[1]}",
        hint="declare the same key, or empty the map first",
    )
