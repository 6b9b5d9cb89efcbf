"""Streams that DuckDB reads: their end while a source has nothing to say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event

import pyarrow as pa
import pytest

from runnel.catalog import TableColumn
from runnel.connector import End, Pause, ReadableTable, ScanRequest, Source, SourcePartition
from runnel.connectors.duckdb.inputs import StreamInput
from runnel.duckdb.kernel import DuckDBKernel
from runnel.duckdb.stream import DuckDBStream
from runnel.expressions.context import EvaluationContext
from runnel.processor import JobContext
from runnel.relation.nodes import Scan
from runnel.sqltypes import BIGINT


class Silent(SourcePartition):
    """Has nothing to say, and nobody will wake its reader."""

    def __init__(self) -> None:
        self.asked = Event()
        self.closed = Event()

    def open(self, wake: Callable[[], None]) -> None:
        pass

    def read(self) -> pa.RecordBatch | Pause | End:
        self.asked.set()
        return Pause()

    def close(self) -> None:
        self.closed.set()


class SilentTable(ReadableTable, Source):
    connector = "Arrow"

    def __init__(self, parts: Sequence[Silent], cooperative: bool) -> None:
        self.name = "t"
        self.columns = (TableColumn("a", BIGINT),)
        self.parts = parts
        self.cooperative = cooperative  # type: ignore[misc]

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return self

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return self.parts


@pytest.fixture
def kernel() -> Iterator[DuckDBKernel]:
    made = DuckDBKernel(2)
    yield made
    made.close()


@pytest.mark.parametrize("cooperative", [True, False])
def test_a_stream_whose_input_says_nothing_can_be_closed(
    kernel: DuckDBKernel, cooperative: bool
) -> None:
    context = JobContext(1, EvaluationContext(), time.monotonic_ns)
    parts = [Silent(), Silent()]
    rows = StreamInput(
        "in0", Scan(table=SilentTable(parts, cooperative), columns=(0,)), (0,), context, 2
    )
    stream = DuckDBStream(kernel, kernel.cursor(), "SELECT count(*) FROM in0", [rows])
    stream.start(lambda: None)
    assert parts[0].asked.wait(20)
    stream.close()
    for part in parts:
        assert part.closed.wait(20)
    stream.join()
    assert stream.take() is None
