"""Keys of a map: key forms of the rows of a batch, and errors that name keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from runnel.connectors.imap.layout import KEY, MapLayout
from runnel.connectors.imap.values import key_values, value_of
from runnel.errors import DataError, IntegrityError, UniqueViolation

Key = Any
"""The key form of a key; for a key of several columns, the tuple of their key forms."""


def keys_of(batch: pa.RecordBatch, columns: Sequence[int], layout: MapLayout) -> list[Key]:
    """The key forms of the rows of a batch; DataError for a NULL.

    `columns` are the indexes of the key columns, in the layout's order.
    """
    lists = []
    for column, (path, sql_type) in zip(columns, layout.key_fields, strict=True):
        array = batch.column(column)
        if array.null_count:
            raise null_key(path)
        lists.append(key_values(array, sql_type))
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))


def null_key(path: str) -> DataError:
    return DataError(
        "a key cannot be NULL" if path == KEY else f'key field "{path}" cannot be NULL'
    )


def duplicate(name: str, key: Key, layout: MapLayout, what: str) -> IntegrityError:
    """The error for a key that cannot be inserted; `what` is the reason."""
    values = key_tuple(key, layout)
    shown = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in values)
    text = shown if len(values) == 1 else f"({shown})"
    return UniqueViolation(
        f'key {text} {what} in map "{name}"',
        hint="use SINK INTO to overwrite, or UPDATE to change the existing row",
    )


def key_tuple(key: Key, layout: MapLayout) -> tuple[Any, ...]:
    """The values of a key, as a fetch returns them."""
    forms = key if len(layout.keys) > 1 else (key,)
    return tuple(
        value_of(form, item) for form, (_, item) in zip(forms, layout.key_fields, strict=True)
    )
