"""UPDATE through a mapping that doesn't name all fields of a map: the other fields of the rows stay
what they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import indexes
from runnel.connectors.imap.layout import Layout, select_fields
from runnel.connectors.imap.storage.segment import Numbers, Segment
from runnel.errors import DataError
from runnel.sqltypes import SqlType


def knows_all_fields(segments: Sequence[Segment], layout: Layout) -> bool:
    """Whether the rows have no field that the layout lacks."""
    return all(
        segment.layout is layout or segment.layout.indexes.keys() <= layout.indexes.keys()
        for segment in segments
    )


def kept_fields(
    rows: pa.RecordBatch, layout: Layout, segments: Sequence[Segment], numbers: Numbers
) -> tuple[pa.RecordBatch, Layout]:
    """Rows that replace those with `numbers`, with the fields added that only the old ones have;
    and the layout of it."""
    other = _other_fields(segments, layout)
    kept = rows_at(segments, numbers, other).columns
    wide = Layout(layout.paths + other.paths, layout.types + other.types)
    return pa.RecordBatch.from_arrays([*rows.columns, *kept], schema=wide.schema), wide


def rows_at(segments: Sequence[Segment], numbers: Numbers, wanted: Layout) -> pa.RecordBatch:
    """The rows with these numbers as a layout sees them; NULLs for a negative number."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = int(np.searchsorted(ordered, 0))
    bounds = [
        first,
        *np.searchsorted(ordered, [segment.first for segment in segments[1:]]).tolist(),
        len(ordered),
    ]
    parts = [[pa.nulls(first, field.type) for field in wanted.schema]]
    for i, segment in enumerate(segments):
        places = indexes(segment.positions(ordered[bounds[i] : bounds[i + 1]]))
        columns = select_fields(segment.batch, segment.layout, wanted, range(len(wanted.paths)))
        parts.append([column.take(places) for column in columns])
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    found = [
        pa.concat_arrays(list(column)).take(indexes(back)) for column in zip(*parts, strict=True)
    ]
    return pa.RecordBatch.from_arrays(found, schema=wanted.schema)


def _other_fields(segments: Sequence[Segment], layout: Layout) -> Layout:
    found: dict[str, SqlType] = {}
    for segment in segments:
        for path, item in zip(segment.layout.paths, segment.layout.types, strict=True):
            if path not in layout.indexes and found.setdefault(path, item) != item:
                raise DataError(
                    f'field "{path}" is {found[path]} in some rows of the map and {item} in others',
                    hint="use SINK INTO, which writes whole rows",
                )
    return Layout(tuple(found), tuple(found.values()))
