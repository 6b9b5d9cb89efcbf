"""Sorted runs of rows, in memory or in files, and merging them slice by slice.

A run is divided into chunks. A chunk has the columns of its rows, followed by their sort keys as
sortable columns. Each step of a merge looks at the current chunk of each run and finds the least of
their last rows. From each chunk it takes the rows up to that one (by binary search), concatenates
and sorts them. No later row can belong before these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, join_batches, make_batch
from runnel.expressions.kernels.sorting import Direction, sorted_rows
from runnel.storage.memory_budget import size_of

CHUNK_BYTES = 1 << 22
"""Approximate maximum size of a chunk in bytes."""

Chunks = Iterator[pa.RecordBatch]


class RunLayout:
    """The schema of a sort's chunks: the columns of the rows, then the keys.

    schema: the schema of the rows.
    directions: whether each key descends, and whether its NULLs come first.
    width: the number of columns of the rows.
    run_schema: the schema of the chunks.
    """

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
        """Make a sorted run of rows and their keys."""
        return self.sorted(
            pa.RecordBatch.from_arrays([*rows.columns, *keys], schema=self.run_schema)
        )

    def sorted(self, run: pa.RecordBatch) -> pa.RecordBatch:
        return run.take(sorted_rows(run.columns[self.width :], self.directions))

    def rows(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a chunk, without their keys."""
        return make_batch(chunk.columns[: self.width], self.schema, chunk.num_rows)

    def key_at(self, chunk: pa.RecordBatch, row: int) -> list[Any]:
        return [_plain(column)[row].as_py() for column in chunk.columns[self.width :]]

    def is_after(self, key: list[Any], other: list[Any]) -> bool:
        """Whether a row with the key `key` comes after a row with the key `other`."""
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
    """View dates and times as integers, since Python's types don't cover all their values."""
    if pa.types.is_temporal(column.type):
        return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return column


def chunks(run: pa.RecordBatch) -> Chunks:
    """Divide a run in memory into chunks."""
    rows = max(1, min(MAX_ROWS, run.num_rows * CHUNK_BYTES // max(size_of(run), 1)))
    for start in range(0, run.num_rows, rows):
        yield run.slice(start, rows)


class _Front:
    """The current chunk of a run, and how many of its rows were taken.

    chunk: the current chunk; None at the end of the run.
    last: the key of the last row of the chunk.
    """

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
        """Remove and return the rows of the chunk that aren't after `bound`."""
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
    """Merge runs into one. Equal rows of one slice keep the order of the runs."""
    # Example: the runs [1, 4 | 9] and [2, 3 | 8], each of two chunks. The last rows of the current
    # chunks are 4 and 3, so the bound is 3: the slice is 1 from the first run and 2, 3 from the
    # second. Then the chunks are [4] and [8], the bound is 4, and the slice is 4. Then they are [9]
    # and [8], and the slice is 8; the rest of the first run follows unchanged.
    fronts = [front for front in (_Front(layout, run) for run in runs) if front.chunk is not None]
    while len(fronts) > 1:
        bound = fronts[0].last
        for front in fronts[1:]:
            if layout.is_after(bound, front.last):
                bound = front.last
        taken = [part for part in (front.take_to(bound) for front in fronts) if part.num_rows]
        yield taken[0] if len(taken) == 1 else layout.sorted(join_batches(taken))
        fronts = [front for front in fronts if front.chunk is not None]
    if fronts:
        yield from fronts[0].rest()


def bounded(
    batches: Iterator[pa.RecordBatch], skip: int, count: int | None
) -> Iterator[pa.RecordBatch]:
    """Skip the first `skip` rows, and then yield at most `count` rows (None: all)."""
    for batch in batches:
        if count is not None and count <= 0:
            return
        if skip:
            skipped = min(skip, batch.num_rows)
            skip -= skipped
            batch = batch.slice(skipped)  # noqa: PLW2901 - the rest of the batch
        if count is not None:
            batch = batch.slice(0, count)  # noqa: PLW2901
            count -= batch.num_rows
        yield batch
