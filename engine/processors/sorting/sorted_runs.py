"""Sorted runs of rows, in memory or in files, and the merging of them a slice at a time.

A run is cut into chunks, each of which holds the rows and, behind them, their sort keys as sortable
columns. To merge, the least last row of all the chunks at hand is found; of each chunk the rows up
to it (a binary search) are put together and sorted. Nothing that comes later can belong before
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, join_batches, make_batch
from runnel.expressions.kernels.sorting import Direction, sorted_rows
from runnel.storage.memory_budget import size_of

CHUNK_BYTES = 1 << 22
"""About how many bytes a chunk has at most."""

Chunks = Iterator[pa.RecordBatch]


class RunLayout:
    """How the chunks of a sort look: the columns of the rows, then the keys."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[pa.DataType], directions: Sequence[Direction]
    ) -> None:
        self.schema = schema
        self.directions = list(directions)
        self.width = len(schema)
        names = [f"$k{i}" for i in range(len(keys))]
        fields = [pa.field(f"$c{i}", item.type) for i, item in enumerate(schema)]
        self.run_schema = pa.schema(
            [*fields, *(pa.field(n, t) for n, t in zip(names, keys, strict=True))]
        )

    def run(self, rows: pa.RecordBatch, keys: list[pa.Array]) -> pa.RecordBatch:
        """Rows and keys in order."""
        return self.sorted(
            pa.RecordBatch.from_arrays([*rows.columns, *keys], schema=self.run_schema)
        )

    def sorted(self, run: pa.RecordBatch) -> pa.RecordBatch:
        return run.take(sorted_rows(run.columns[self.width :], self.directions))

    def rows(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a chunk, without their keys."""
        return make_batch(chunk.columns[: self.width], self.schema, chunk.num_rows)

    def key_at(self, chunk: pa.RecordBatch, row: int) -> list[Any]:
        return [_plain(column)[row].as_py() for column in chunk.columns[self.width :]]

    def is_after(self, key: list[Any], other: list[Any]) -> bool:
        """Whether a row with `key` comes after one with `other`."""
        for mine, theirs, (descending, nulls_first) in zip(
            key, other, self.directions, strict=True
        ):
            if mine is None or theirs is None:
                if (mine is None) is not (theirs is None):
                    return (theirs is None) is nulls_first
            elif mine != theirs:
                return bool(mine > theirs) is not descending
        return False


def _plain(column: pa.Array) -> pa.Array:
    """Dates and times as the numbers behind them, all of which Python has."""
    if pa.types.is_temporal(column.type):
        return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return column


def chunks(run: pa.RecordBatch) -> Chunks:
    """A run in memory as chunks."""
    rows = max(1, min(MAX_ROWS, run.num_rows * CHUNK_BYTES // max(size_of(run), 1)))
    for start in range(0, run.num_rows, rows):
        yield run.slice(start, rows)


class _Front:
    """The chunk of a run that is at hand, and how much of it was taken."""

    def __init__(self, layout: RunLayout, source: Chunks) -> None:
        self._layout = layout
        self._source = source
        self.chunk: pa.RecordBatch | None = None
        self.last: list[Any] = []
        self._start = 0
        self.load()

    def load(self) -> None:
        self.chunk = next((item for item in self._source if item.num_rows), None)
        self._start = 0
        if self.chunk is not None:
            self.last = self._layout.key_at(self.chunk, self.chunk.num_rows - 1)

    def take_to(self, bound: list[Any]) -> pa.RecordBatch:
        """The rows that don't come after `bound`, which are gone then."""
        assert self.chunk is not None
        low, high = self._start, self.chunk.num_rows
        while low < high:
            middle = (low + high) // 2
            if self._layout.is_after(self._layout.key_at(self.chunk, middle), bound):
                high = middle
            else:
                low = middle + 1
        taken = self.chunk.slice(self._start, low - self._start)
        self._start = low
        if low == self.chunk.num_rows:
            self.load()
        return taken

    def rest(self) -> Chunks:
        while self.chunk is not None:
            yield self.chunk.slice(self._start)
            self.load()


def merged(layout: RunLayout, runs: Sequence[Chunks]) -> Chunks:
    """The chunks of all runs as those of one, equal rows in the order of the runs where they come
    in one slice."""
    fronts = [front for front in (_Front(layout, run) for run in runs) if front.chunk is not None]
    while len(fronts) > 1:
        bound = fronts[0].last
        for front in fronts[1:]:
            if layout.is_after(bound, front.last):
                bound = front.last
        pieces = [piece for piece in (front.take_to(bound) for front in fronts) if piece.num_rows]
        yield pieces[0] if len(pieces) == 1 else layout.sorted(join_batches(pieces))
        fronts = [front for front in fronts if front.chunk is not None]
    if fronts:
        yield from fronts[0].rest()


def bounded(
    batches: Iterator[pa.RecordBatch], skip: int, count: int | None
) -> Iterator[pa.RecordBatch]:
    """Without the first `skip` rows, and of the others at most `count`."""
    for batch in batches:
        if count is not None and count <= 0:
            return
        if skip:
            skipped = min(skip, batch.num_rows)
            skip -= skipped
            batch = batch.slice(skipped)  # noqa: PLW2901 - the rest of it
        if count is not None:
            batch = batch.slice(0, count)  # noqa: PLW2901
            count -= batch.num_rows
        yield batch
