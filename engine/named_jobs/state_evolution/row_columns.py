"""Conversion of state that consists of rows of a step's inputs, when the inputs of the step have
other columns now, or the same columns in another order.

Columns are matched by name and type. The filters and projections below that compute them may
change, with effect on the rows after the change. A column that the stored rows lack cannot be
computed for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from runnel.columns.batches import make_batch
from runnel.columns.key_hash import KEY_METADATA
from runnel.named_jobs.state_evolution.converted_state import BY_WATERMARK
from runnel.relation.state_identity import StateSignature

Columns = tuple[tuple[int, ...], ...]
"""For each input, the positions of the old columns, in the order of the new ones."""

_SIDES = ("$left", "$right")
"""The names of the last column of a join's state, which identify the side of a batch's rows."""

_OTHERS = ("$watermark", "$r0")
"""First columns of batches that do not contain input rows; BY_WATERMARK lists others."""


def missing_columns(old: StateSignature, new: StateSignature) -> list[str]:
    """The columns that the new step needs of its inputs and the stored rows lack."""
    pairs = zip(old.columns, new.columns, strict=True)
    return list(
        dict.fromkeys(name for before, after in pairs for name in after if name not in before)
    )


def moved_columns(old: StateSignature, new: StateSignature) -> Columns:
    """The positions of the inputs' columns in the stored rows; () if nothing changed."""
    if (old.columns == new.columns and old.column_names == new.column_names) or not old.columns:
        return ()
    return tuple(
        tuple(before.index(name) for name in after)
        for before, after in zip(old.columns, new.columns, strict=True)
    )


def with_columns(
    batches: Iterable[pa.RecordBatch],
    columns: Columns,
    counts: tuple[int, ...],
    names: tuple[tuple[str, ...], ...],
) -> Iterator[pa.RecordBatch]:
    """The state with its rows' columns in the new order and with their new names. `counts` is the
    number of columns that each input had. Other state, such as watermarks and running values, is
    unchanged."""
    for batch in batches:
        old = batch.schema.names
        if old[:2] in BY_WATERMARK or old[0] in _OTHERS:
            yield batch
            continue
        side = _SIDES.index(old[-1]) if old[-1] in _SIDES else 0
        # A state of rows (a, b, time) whose input now has the columns (b, c := a): `columns[side]`
        # is (1, 0) and `counts[side]` is 2, so `positions` is [1, 0, 2]: (b, c, time).
        positions = [*columns[side], *range(counts[side], batch.num_columns)]
        called = dict(zip(columns[side], names[side], strict=True))
        fields = [batch.schema.field(i).with_name(called.get(i, old[i])) for i in positions]
        schema = pa.schema(fields, metadata=_renamed_keys(batch, called))
        yield make_batch([batch.column(i) for i in positions], schema, batch.num_rows)


def _renamed_keys(batch: pa.RecordBatch, called: Mapping[int, str]) -> dict[bytes, bytes]:
    """The metadata of a batch, with the new names of key columns."""
    metadata = dict(batch.schema.metadata or {})
    if KEY_METADATA in metadata:
        positions = (
            batch.schema.get_field_index(name)
            for name in metadata[KEY_METADATA].decode().split("\n")
        )
        metadata[KEY_METADATA] = "\n".join(
            called.get(i, batch.schema.names[i]) for i in positions
        ).encode()
    return metadata
