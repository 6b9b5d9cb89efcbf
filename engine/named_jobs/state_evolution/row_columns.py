"""State that consists of rows of a step's inputs, for a step whose inputs have other columns, or
the same in another order.

Columns are found again by name and type: what a filter or a projection further down makes of them
may change freely, as it does for rows that come after the change. A column that the rows of the
state do not have can't be made up for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from runnel.columns.batches import make_batch
from runnel.columns.key_hash import KEY_METADATA
from runnel.named_jobs.state_evolution.converted_state import BY_WATERMARK
from runnel.relation.state_identity import Meaning

Columns = tuple[tuple[int, ...], ...]
"""For each input the numbers of the old columns, in the order of the new ones."""

_SIDES = ("$left", "$right")
"""The names of the last column of a join's state, which say whose rows a batch has."""

_OTHERS = ("$watermark", "$r0")
"""First columns of what is beside the rows, with BY_WATERMARK."""


def missing_columns(old: Meaning, new: Meaning) -> list[str]:
    """The columns that the new step needs of its inputs and the rows of the old one do not have."""
    pairs = zip(old.columns, new.columns, strict=True)
    return list(
        dict.fromkeys(name for before, after in pairs for name in after if name not in before)
    )


def moved_columns(old: Meaning, new: Meaning) -> Columns:
    """Where the columns of the inputs are in the rows of the old step; nothing where they are where
    they were."""
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
    """State with its rows' columns where they are now, under the names that they have now; `counts`
    are how many columns each input had. What else is in the state, such as watermarks and running
    values, stays as it is."""
    for batch in batches:
        old = batch.schema.names
        if old[:2] in BY_WATERMARK or old[0] in _OTHERS:
            yield batch
            continue
        side = _SIDES.index(old[-1]) if old[-1] in _SIDES else 0
        places = [*columns[side], *range(counts[side], batch.num_columns)]
        called = dict(zip(columns[side], names[side], strict=True))
        fields = [
            batch.schema.field(place).with_name(called.get(place, old[place])) for place in places
        ]
        schema = pa.schema(fields, metadata=_renamed_keys(batch, called))
        yield make_batch([batch.column(place) for place in places], schema, batch.num_rows)


def _renamed_keys(batch: pa.RecordBatch, called: Mapping[int, str]) -> dict[bytes, bytes]:
    """The metadata of a batch, in which key columns have the names that they have now."""
    metadata = dict(batch.schema.metadata or {})
    if KEY_METADATA in metadata:
        places = (
            batch.schema.get_field_index(name)
            for name in metadata[KEY_METADATA].decode().split("\n")
        )
        metadata[KEY_METADATA] = "\n".join(
            called.get(place, batch.schema.names[place]) for place in places
        ).encode()
    return metadata
