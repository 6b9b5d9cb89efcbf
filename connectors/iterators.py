"""Sources built from Python iterators: the short way to a connector whose rows another library
returns."""

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
    """A scan whose batches come from an iterator, in one partition.

    `start` is called when the scan is split, and should fix the version of the data that the scan
    sees. Another thread advances its iterator, which may block. A generator is closed at the end.
    """

    cooperative = False

    def __init__(self, start: Callable[[JobContext], Iterable[pa.RecordBatch]]) -> None:
        self._start = start

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [IteratorPartition(iter(self._start(context)))]


class IteratorPartition(SourcePartition):
    """The batches of an iterator, sliced to at most BATCH_ROWS rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._chunks: Iterator[pa.RecordBatch] = iter(())

    def read(self) -> pa.RecordBatch | End:
        while True:
            chunk = next(self._chunks, None)
            if chunk is not None:
                return chunk
            batch = next(self._batches, None)
            if batch is None:
                return END
            self._chunks = slices(batch, BATCH_ROWS)

    def close(self) -> None:
        if isinstance(self._batches, Generator):
            self._batches.close()
        self._batches = self._chunks = iter(())


def batches_of_rows(
    rows: Iterable[Sequence[Any]], columns: Sequence[TableColumn]
) -> Iterator[pa.RecordBatch]:
    """Rows of Python values as batches of these columns.

    DataError names a value that does not fit the type of its column.
    """
    schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])
    source = iter(rows)
    while part := list(islice(source, BATCH_ROWS)):
        if not columns:
            yield empty_columns(len(part))
            continue
        values = zip(*part, strict=True)
        arrays = [array_of(item, column.type) for item, column in zip(values, columns, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
