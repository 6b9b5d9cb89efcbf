"""Full scans of a map: its rows at the start of the scan, without a copy of segments without
dead rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa

from runnel.columns.batches import from_flags
from runnel.connector import BATCH_ROWS, END, End, Pause, Source, SourcePartition
from runnel.connectors.imap.layout import MapLayout, select_fields
from runnel.connectors.imap.storage.store import MapStore, SegmentView
from runnel.processor import JobContext

MOST_PARTITIONS = 16


class MapSource(Source):
    """A scan of the columns of a mapping at the indexes `columns`.

    `limit` is the maximum number of rows; None: all.
    """

    def __init__(
        self,
        store: MapStore,
        layout: MapLayout,
        columns: tuple[int, ...],
        names: Sequence[str],
        limit: int | None,
    ) -> None:
        self._store = store
        self._layout = layout
        self._columns = columns
        self._names = tuple(names)
        self._limit = limit

    is_stored = True

    def stored(self) -> Iterator[pa.RecordBatch]:
        rows = (item.rows() for item in self._slices())
        return (batch for batch in rows if batch.num_rows)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        slices = self._slices()
        count = min(MOST_PARTITIONS, max(1, len(slices) // 2))
        bounds = [len(slices) * i // count for i in range(count + 1)]
        return [MapPartition(slices[low:high]) for low, high in pairwise(bounds)]

    def _slices(self) -> list[SegmentSlice]:
        """The slices of all segments of a snapshot of the map, which is taken now."""
        slices: list[SegmentSlice] = []
        left = self._limit
        for view in self._store.snapshot():
            if left is not None and left <= 0:
                break
            batch = project(
                view.segment.batch, view.segment.layout, self._layout, self._columns, self._names
            )
            slices.extend(
                SegmentSlice(batch, view, start) for start in range(0, batch.num_rows, BATCH_ROWS)
            )
            if left is not None:
                left -= live_rows(view)
        return slices


class SegmentSlice:
    """At most BATCH_ROWS rows of a segment, from the row `start` on.

    `batch` has the requested columns of the whole segment.
    """

    __slots__ = ("batch", "start", "view")

    def __init__(self, batch: pa.RecordBatch, view: SegmentView, start: int) -> None:
        self.batch = batch
        self.view = view
        self.start = start

    def rows(self) -> pa.RecordBatch:
        """The live rows."""
        rows = (
            self.batch
            if self.batch.num_rows <= BATCH_ROWS
            else self.batch.slice(self.start, BATCH_ROWS)
        )
        mask = self.view.mask
        if mask is None:
            return rows
        part = mask[self.start : self.start + BATCH_ROWS]
        return rows if part.all() else rows.filter(from_flags(part))


class MapPartition(SourcePartition):
    """A contiguous range of the slices of a scan."""

    def __init__(self, slices: Sequence[SegmentSlice]) -> None:
        self._slices = slices
        self._next = 0

    def read(self) -> pa.RecordBatch | Pause | End:
        while self._next < len(self._slices):
            rows = self._slices[self._next].rows()
            self._next += 1
            if rows.num_rows:
                return rows
        return END

    def close(self) -> None:
        self._slices = ()
        self._next = 0


def project(
    batch: pa.RecordBatch,
    stored: MapLayout,
    layout: MapLayout,
    columns: tuple[int, ...],
    names: Sequence[str],
) -> pa.RecordBatch:
    """Columns of a mapping from stored rows, under the mapping's names."""
    if not columns:
        return batch.select([])
    return pa.RecordBatch.from_arrays(select_fields(batch, stored, layout, columns), names=names)


def live_rows(view: SegmentView) -> int:
    """The number of rows of a segment that are alive in a snapshot."""
    return len(view.segment) if view.mask is None else int(view.mask.sum())
