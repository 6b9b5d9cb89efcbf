"""Sources out of Python iterators: the short way for a connector whose rows come from some other
library."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import empty_columns, slices
from runnel.connector import BATCH_ROWS, END, End, Source, SourcePartition
from runnel.expressions.kernels.values import array_of
from runnel.processor import JobContext
from runnel.sqltypes import to_arrow


class IteratorSource(Source):
    """A scan whose batches an iterator gives, in one partition. `start` is called when the scan is
    split, and should fix then what it sees; its iterator is advanced by another thread and may
    block. A generator is closed at the end."""

    cooperative = False

    def __init__(self, start: Callable[[JobContext], Iterable[pa.RecordBatch]]) -> None:
        self._start = start

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [IteratorPartition(iter(self._start(context)))]


class IteratorPartition(SourcePartition):
    """The batches of an iterator, cut to the length that is allowed."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._pieces: Iterator[pa.RecordBatch] = iter(())

    def read(self) -> pa.RecordBatch | End:
        while True:
            piece = next(self._pieces, None)
            if piece is not None:
                return piece
            batch = next(self._batches, None)
            if batch is None:
                return END
            self._pieces = slices(batch, BATCH_ROWS)

    def close(self) -> None:
        if isinstance(self._batches, Generator):
            self._batches.close()
        self._batches = self._pieces = iter(())


def batches_of_rows(
    rows: Iterable[Sequence[Any]], columns: Sequence[TableColumn]
) -> Iterator[pa.RecordBatch]:
    """Rows of Python values as batches of these columns; DataError names a value that doesn't fit
    its column's type."""
    schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])
    source = iter(rows)
    while part := list(islice(source, BATCH_ROWS)):
        if not columns:
            yield empty_columns(len(part))
            continue
        values = zip(*part, strict=True)
        arrays = [array_of(item, column.type) for item, column in zip(values, columns, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
