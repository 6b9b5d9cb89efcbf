"""Scans over Arrow data: batches in memory, and streams that are read while the query runs.

Data in canonical types are not copied: a batch is emitted as it is, at most sliced to BATCH_ROWS
rows and to the requested columns. Other columns are converted to canonical types batch by batch,
and only if a query reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from runnel.columns.batches import slices
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    Pause,
    Skipped,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.errors import Error, OperationalError, position_expired
from runnel.expressions.kernels.values import canonical
from runnel.processor import ExpiredPosition, JobContext
from runnel.sqltypes import SqlType, to_arrow

MOST_PARTITIONS = 16
SMALL_BATCH = 1024
"""The number of rows below which batches are concatenated, since every batch costs each operator
some microseconds."""


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns of a scan, and the work to get them from a stored batch.

    indexes: the indexes of the columns in the stored batch.
    names: their names.
    types: their SQL types.
    is_identity: these are all columns in their order, in canonical types.
    is_canonical: these columns have canonical types.
    """

    indexes: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    is_identity: bool
    is_canonical: bool

    @staticmethod
    def of(schema: pa.Schema, types: Sequence[SqlType], indexes: tuple[int, ...]) -> Projection:
        """The projection of batches to the columns at `indexes`.

        The batches have the Arrow schema `schema`; `types` are the SQL types of all their columns.
        """
        chosen = tuple(types[i] for i in indexes)
        canonical_columns = all(schema.types[i] == to_arrow(types[i]) for i in indexes)
        identity = canonical_columns and indexes == tuple(range(len(types)))
        return Projection(
            indexes, tuple(schema.names[i] for i in indexes), chosen, identity, canonical_columns
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The chosen columns of a batch, in canonical types."""
        if self.is_identity:
            return batch
        if self.is_canonical:
            return batch.select(self.indexes)
        columns = [
            canonical(batch.column(i), t) for i, t in zip(self.indexes, self.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=self.names)


class BatchesSource(Source):
    """A scan of batches in memory with at most BATCH_ROWS rows each.

    `load` returns them when the scan starts.
    """

    traits = SourceTraits(is_repeatable=True)
    kind = "the registered object"
    is_stored = True

    def __init__(
        self,
        load: Callable[[], Sequence[pa.RecordBatch]],
        projection: Projection,
        limit: int | None = None,
    ) -> None:
        self._load = load
        self._projection = projection
        self._limit = limit

    def stored(self) -> Iterator[pa.RecordBatch]:
        return map(self._projection.apply, self._limited())

    def _limited(self) -> Sequence[pa.RecordBatch]:
        batches = self._load()
        return batches if self._limit is None else first_rows(batches, self._limit)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        batches = self._limited()
        count = min(MOST_PARTITIONS, max(1, len(batches) // 2))
        if count == 1:
            return [BatchesPartition(batches, self._projection)]
        bounds = [len(batches) * i // count for i in range(count + 1)]
        return [
            BatchesPartition(batches[low:high], self._projection) for low, high in pairwise(bounds)
        ]


class BatchesPartition(SourcePartition):
    """A contiguous range of batches."""

    def __init__(self, batches: Sequence[pa.RecordBatch], projection: Projection) -> None:
        self._batches = batches
        self._projection = projection
        self._next = 0

    def read(self) -> pa.RecordBatch | Pause | End:
        position = self._next
        if position >= len(self._batches):
            return END
        batch = self._batches[position]
        self._next = position + 1
        if batch.num_rows >= SMALL_BATCH or self._next == len(self._batches):
            return self._projection.apply(batch)
        return self._put_together(position)

    def position(self) -> Token | None:
        return {"batch": self._next, "shape": self._shape()}

    def seek(self, token: Token) -> None:
        if token["shape"] != self._shape():
            raise position_expired(
                "a registered object isn't what it was when the snapshot was taken",
                detail=(
                    f"a partition of it has {self._shape()[1]} rows, and had "
                    f"{token['shape'][1]}; the next batch was {token['batch']}"
                ),
                hint="register it again as it was",
            )
        self._next = token["batch"]

    def stop_at(self, token: Token) -> None:
        self.seek(token)
        self._batches, self._next = self._batches[: self._next], 0

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        self._next = 0 if choice is ExpiredPosition.EARLIEST else len(self._batches)
        return Skipped("its beginning" if choice is ExpiredPosition.EARLIEST else "its end")

    def _shape(self) -> list[int]:
        """The number of batches and the number of rows."""
        return [len(self._batches), sum(batch.num_rows for batch in self._batches)]

    def _put_together(self, position: int) -> pa.RecordBatch:
        rows, end = 0, position
        while end < len(self._batches) and rows + self._batches[end].num_rows <= BATCH_ROWS:
            rows += self._batches[end].num_rows
            end += 1
        self._next = end
        chunks = [self._projection.apply(batch) for batch in self._batches[position:end]]
        return chunks[0] if len(chunks) == 1 else pa.concat_batches(chunks)

    def close(self) -> None:
        self._batches = ()
        self._next = 0


class BatchStreamSource(Source):
    """A scan of a stream of batches. Reading may block.

    `start` is called when the scan is split. The reading thread calls `open` of its result, which
    yields batches of any number of rows.
    """

    cooperative = False

    def __init__(
        self,
        start: Callable[[], StreamReading],
        projection: Projection,
        name: str,
        limit: int | None = None,
    ) -> None:
        self._start = start
        self._projection = projection
        self._name = name
        self._limit = limit

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [BatchStreamPartition(self._start(), self._projection, self._name, self._limit)]


class StreamReading:
    """One pass over a stream.

    open: returns the batches.
    give_up: called if the stream was never opened.
    """

    def __init__(
        self,
        open_batches: Callable[[], Iterator[pa.RecordBatch]],
        give_up: Callable[[], None] | None = None,
    ):
        self.open = open_batches
        self.give_up = give_up


class BatchStreamPartition(SourcePartition):
    """The only partition of a stream."""

    def __init__(
        self, reading: StreamReading, projection: Projection, name: str, limit: int | None
    ) -> None:
        self._reading = reading
        self._projection = projection
        self._name = name
        self._left = limit
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._slices: Iterator[pa.RecordBatch] = iter(())

    def read(self) -> pa.RecordBatch | Pause | End:
        if self._left is not None and self._left <= 0:
            return END
        batch = next(self._slices, None)
        while batch is None:
            whole = self._next_batch()
            if whole is None:
                return END
            self._slices = slices(whole)
            batch = next(self._slices, None)
        if self._left is not None:
            batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        return self._projection.apply(batch)

    def _next_batch(self) -> pa.RecordBatch | None:
        try:
            if self._batches is None:
                self._batches = self._reading.open()
            return next(self._batches, None)
        except Error:
            raise
        except Exception as error:
            # Exceptions of another library's stream all become this error.
            raise OperationalError(
                f'reading the registered object "{self._name}" failed',
                detail=f"{type(error).__name__}: {error}",
            ) from error

    def close(self) -> None:
        if self._batches is None and self._reading.give_up is not None:
            self._reading.give_up()
        self._batches = iter(())
        self._slices = iter(())


def first_rows(batches: Sequence[pa.RecordBatch], count: int) -> Sequence[pa.RecordBatch]:
    """The batches with the first `count` rows."""
    first: list[pa.RecordBatch] = []
    for batch in batches:
        if count <= 0:
            break
        first.append(batch if batch.num_rows <= count else batch.slice(0, count))
        count -= batch.num_rows
    return first


def cut_table(table: Any) -> list[pa.RecordBatch]:
    """The batches of a table, with at most BATCH_ROWS rows, without a copy and without empty
    batches."""
    return [batch for batch in table.to_batches(max_chunksize=BATCH_ROWS) if batch.num_rows]
