"""UPDATE through a mapping that doesn't name all fields of a map: the other fields of the rows stay what they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.batches import indexes
from runnel.connectors.map_layout import Layout, select_fields
from runnel.connectors.map_segment import Numbers, Segment
from runnel.errors import DataError
from runnel.sqltypes import SqlType


def knows_all_fields(segments: Sequence[Segment], layout: Layout) -> bool:
    """Whether the rows have no field that the layout lacks."""
    return all(segment.layout is layout or segment.layout.indexes.keys() <= layout.indexes.keys() for segment in segments)


def kept_fields(
    rows: pa.RecordBatch, layout: Layout, segments: Sequence[Segment], numbers: Numbers
) -> tuple[pa.RecordBatch, Layout]:
    """Rows that replace those with `numbers`, with the fields added that only the old ones have; and the layout of it."""
    other = _other_fields(segments, layout)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    bounds = [*np.searchsorted(ordered, [segment.first for segment in segments]).tolist(), len(ordered)]
    parts = []
    for i, segment in enumerate(segments):
        places = indexes(segment.positions(ordered[bounds[i] : bounds[i + 1]]))
        columns = select_fields(segment.batch, segment.layout, other, range(len(other.paths)))
        parts.append([column.take(places) for column in columns])
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    kept = [pa.concat_arrays(list(column)).take(indexes(back)) for column in zip(*parts, strict=True)]
    wide = Layout(layout.paths + other.paths, layout.types + other.types)
    return pa.RecordBatch.from_arrays([*rows.columns, *kept], schema=wide.schema), wide


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
