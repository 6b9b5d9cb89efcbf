"""UPDATE through a mapping that lacks some fields of a map: these fields keep their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import indexes
from runnel.connectors.imap.layout import MapLayout, select_fields
from runnel.connectors.imap.storage.segment import Numbers, Segment
from runnel.errors import DataError
from runnel.sqltypes import SqlType


def knows_all_fields(segments: Sequence[Segment], layout: MapLayout) -> bool:
    """Whether the layout has all fields of the rows."""
    return all(
        segment.layout is layout or segment.layout.indexes.keys() <= layout.indexes.keys()
        for segment in segments
    )


def with_unchanged_fields(
    rows: pa.RecordBatch, layout: MapLayout, segments: Sequence[Segment], numbers: Numbers
) -> tuple[pa.RecordBatch, MapLayout]:
    """Rows that replace those with `numbers`, extended by the fields that only the old rows have.

    Returns them with their layout.
    """
    other = _other_fields(segments, layout)
    retained = rows_at(segments, numbers, other).columns
    wide = MapLayout(layout.paths + other.paths, layout.types + other.types)
    return pa.RecordBatch.from_arrays([*rows.columns, *retained], schema=wide.schema), wide


def rows_at(segments: Sequence[Segment], numbers: Numbers, target: MapLayout) -> pa.RecordBatch:
    """The rows with these numbers, in a layout; NULLs for a negative number."""
    # Example: segments with the numbers 0 to 9 and 10 to 19; numbers = [12, -1, 3]. order = [1, 2,
    # 0] sorts them to [-1, 3, 12]; first = 1 of them is negative, bounds = [1, 2, 3]. The chunks
    # are one row of NULLs, the row 3 of the first segment and the row 12 of the second. back = [2,
    # 0, 1] is the inverse of `order` and restores the requested order.
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = int(np.searchsorted(ordered, 0))
    bounds = [
        first,
        *np.searchsorted(ordered, [segment.first for segment in segments[1:]]).tolist(),
        len(ordered),
    ]
    chunks = [[pa.nulls(first, field.type) for field in target.schema]]
    for i, segment in enumerate(segments):
        positions = indexes(segment.positions(ordered[bounds[i] : bounds[i + 1]]))
        columns = select_fields(segment.batch, segment.layout, target, range(len(target.paths)))
        chunks.append([column.take(positions) for column in columns])
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    found = [
        pa.concat_arrays(list(column)).take(indexes(back)) for column in zip(*chunks, strict=True)
    ]
    return pa.RecordBatch.from_arrays(found, schema=target.schema)


def _other_fields(segments: Sequence[Segment], layout: MapLayout) -> MapLayout:
    found: dict[str, SqlType] = {}
    for segment in segments:
        for path, item in zip(segment.layout.paths, segment.layout.types, strict=True):
            if path not in layout.indexes and found.setdefault(path, item) != item:
                raise DataError(
                    f'field "{path}" is {found[path]} in some rows of the map and {item} in others',
                    hint="use SINK INTO, which writes whole rows",
                )
    return MapLayout(tuple(found), tuple(found.values()))
