"""Scans over Arrow data: batches that are at hand, and streams that are read as the query goes.

Nothing is copied that is in canonical types already: a batch goes out as it came, at most cut to
BATCH_ROWS and to the columns asked for. Other columns are brought to canonical types batch by
batch, and only where a query reads them.
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
    Token,
    position_expired,
)
from runnel.errors import Error, OperationalError
from runnel.expressions.kernels.values import canonical
from runnel.processor import ExpiredPosition, JobContext
from runnel.sqltypes import SqlType, to_arrow

MOST_PARTITIONS = 16
SMALL_BATCH = 1024
"""Batches of fewer rows are put together, as every batch costs each operator some microseconds."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Which columns a scan gives, and what has to be done to a stored batch for it.

    `is_identity`: all columns in their order, all canonical; `is_canonical`: the chosen ones are
    canonical.
    """

    indexes: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    is_identity: bool
    is_canonical: bool

    @staticmethod
    def of(schema: pa.Schema, types: Sequence[SqlType], indexes: tuple[int, ...]) -> Projection:
        """The projection of batches of `schema`, whose columns have the SQL types `types`, to the
        columns at `indexes`."""
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
    """A scan of batches at hand, none longer than BATCH_ROWS. `load` gives them when the scan
    starts."""

    is_repeatable = True
    kind = "the registered object"

    def __init__(
        self,
        load: Callable[[], Sequence[pa.RecordBatch]],
        projection: Projection,
        limit: int | None = None,
    ) -> None:
        self._load = load
        self._projection = projection
        self._limit = limit

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        batches = self._load()
        if self._limit is not None:
            batches = first_rows(batches, self._limit)
        count = min(MOST_PARTITIONS, max(1, len(batches) // 2))
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
                    f"a part of it has {self._shape()[1]} rows, and had {token['shape'][1]}; "
                    "the next batch was "
                    f"{token['batch']}"
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
        """How many batches and rows there are."""
        return [len(self._batches), sum(batch.num_rows for batch in self._batches)]

    def _put_together(self, position: int) -> pa.RecordBatch:
        rows, end = 0, position
        while end < len(self._batches) and rows + self._batches[end].num_rows <= BATCH_ROWS:
            rows += self._batches[end].num_rows
            end += 1
        self._next = end
        parts = [self._projection.apply(batch) for batch in self._batches[position:end]]
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def close(self) -> None:
        self._batches = ()
        self._next = 0


class StreamSource(Source):
    """A scan that reads a stream of batches; reading may block. `start` is called when the scan is
    split; what it gives is called by the thread that reads, and yields the batches, which may be of
    any length."""

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
        return [StreamPartition(self._start(), self._projection, self._name, self._limit)]


class StreamReading:
    """One pass over a stream: `open` gives its batches; `give_up` is called if it was never
    opened."""

    def __init__(
        self,
        open_batches: Callable[[], Iterator[pa.RecordBatch]],
        give_up: Callable[[], None] | None = None,
    ):
        self.open = open_batches
        self.give_up = give_up


class StreamPartition(SourcePartition):
    """The one partition of a stream."""

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
            # Whatever another library's stream raises, the statement's story is the same.
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
    """The batches that hold the first `count` rows."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        if count <= 0:
            break
        kept.append(batch if batch.num_rows <= count else batch.slice(0, count))
        count -= batch.num_rows
    return kept


def cut_table(table: Any) -> list[pa.RecordBatch]:
    """The batches of a table, at most BATCH_ROWS long, without copying and without the empty
    ones."""
    return [batch for batch in table.to_batches(max_chunksize=BATCH_ROWS) if batch.num_rows]
