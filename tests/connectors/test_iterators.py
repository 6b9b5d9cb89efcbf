"""Sources out of iterators, and the comparisons that a connector may hand on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from runnel.catalog import TableColumn
from runnel.connector import END, ReadableTable, ScanRequest, Source
from runnel.connectors.comparisons import comparisons
from runnel.connectors.iterators import IteratorPartition, IteratorSource, batches_of_rows
from runnel.errors import DataError
from runnel.expressions.build import call, in_list
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import scalar_of
from runnel.expressions.nodes import Column, Literal, Parameter
from runnel.sqltypes import BIGINT, VARCHAR
from tests.connectors.conformance import Columns, ReadingConformance, Row


class Rows(ReadableTable):
    """A list of rows as a table."""

    connector = "Rows"

    def __init__(self, columns: Columns, rows: Sequence[Row]) -> None:
        self.name = "t"
        self.columns = tuple(TableColumn(name, item) for name, item in columns)
        self._rows = rows

    def row_count(self) -> int:
        return len(self._rows)

    def scan(self, request: ScanRequest) -> Source:
        columns = [self.columns[i] for i in request.columns]
        return IteratorSource(
            lambda context: batches_of_rows(
                [tuple(row[i] for i in request.columns) for row in self._rows], columns
            )
        )


class TestRowsOfPython(ReadingConformance):
    def filled(self, path: Path, columns: Columns, rows: Sequence[Row]) -> ReadableTable:
        return Rows(columns, rows)


def test_a_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(DataError, match="'text'"):
        list(batches_of_rows([(1,), ("text",)], [TableColumn("a", BIGINT)]))


def test_a_generator_is_closed() -> None:
    ended = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield pa.RecordBatch.from_arrays([pa.array([1])], names=["a"])
            yield pa.RecordBatch.from_arrays([pa.array([2])], names=["a"])
        finally:
            ended.append(True)

    partition = IteratorPartition(batches())
    assert isinstance(partition.read(), pa.RecordBatch)
    partition.close()
    assert ended == [True]
    assert partition.read() is END


A = Column(index=0, name="a", type=BIGINT)
B = Column(index=1, name="b", type=VARCHAR)
FIVE = Literal(value=5, type=BIGINT)
CONTEXT = EvaluationContext([scalar_of(7, BIGINT)])


def test_comparisons_with_constants_and_arguments() -> None:
    predicate = call(
        "and",
        [
            call("ge", [A, FIVE]),
            call("lt", [Parameter(index=0, type=BIGINT), A]),
            in_list(B, [Literal(value="x", type=VARCHAR), Literal(value="y", type=VARCHAR)]),
            call("ne", [A, FIVE]),
            call("eq", [A, call("add", [A, FIVE])]),
        ],
    )
    found = [
        (item.column.name, item.operation, item.values) for item in comparisons(predicate, CONTEXT)
    ]
    assert found == [("a", "ge", (5,)), ("a", "gt", (7,)), ("b", "eq", ("x", "y"))]


def test_no_predicate_and_none_that_is_known() -> None:
    assert comparisons(None, CONTEXT) == []
    assert (
        comparisons(
            call("or", [call("eq", [A, FIVE]), call("eq", [B, Literal(value="x", type=VARCHAR)])]),
            CONTEXT,
        )
        == []
    )
