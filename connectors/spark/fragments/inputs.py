"""Small tables of other connectors in a query that Spark runs: their rows are sent to it when
the query is split."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from time import monotonic_ns

import pyarrow as pa

from runnel.catalog import Table
from runnel.connector import End, Pause, ReadableTable, ScanRequest, SourcePartition
from runnel.expressions.evaluate import can_fail
from runnel.foreign.fragment import Unrenderable
from runnel.processor import JobContext
from runnel.relation.nodes import Scan
from runnel.sqltypes import NUMBERS, Kind, to_arrow

MOST_ROWS = 100_000
"""The maximum number of rows that are sent to Spark: with two columns, this number takes it a
second or two to receive and look up."""

TRAVELLING = NUMBERS | {
    Kind.BOOLEAN,
    Kind.VARCHAR,
    Kind.VARBINARY,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIMESTAMP_TZ,
    Kind.INTERVAL,
    Kind.INTERVAL_MONTH,
}
"""Types whose values are all the same in Spark."""


def can_take(table: Table) -> bool:
    """Whether the table is known to be small, and is bounded."""
    if (
        not isinstance(table, ReadableTable)
        or table.is_unbounded
        or table.malformed_target is not None
    ):
        return False
    rows = table.row_count()
    return rows is not None and rows <= MOST_ROWS


def check_columns(scan: Scan, read: tuple[int, ...]) -> None:
    """Unrenderable if a column's values might differ in Spark."""
    for index in read:
        column = scan.table.columns[index]
        if column.type.kind not in TRAVELLING:
            raise Unrenderable(f"{column.type} values on their way to Spark", scan.position)


def rows_of(scan: Scan, read: tuple[int, ...], context: JobContext) -> pa.Table:
    """The current rows of the columns at the indexes `read`.

    The scan's predicate may already be applied, if it cannot fail.
    """
    table = scan.table
    assert isinstance(table, ReadableTable)
    advice = None if scan.predicate is None or can_fail(scan.predicate) else scan.predicate
    names = [f"c{position}" for position in range(len(read))]
    schema = pa.schema(
        [
            pa.field(name, to_arrow(table.columns[i].type))
            for name, i in zip(names, read, strict=True)
        ]
    )
    partitions = table.scan(ScanRequest(read, advice)).split(context)
    try:
        batches = [
            pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            for item in partitions
            for batch in _batches(item)
        ]
    finally:
        for partition in partitions:
            partition.close()
    return pa.Table.from_batches(batches, schema)


def _batches(partition: SourcePartition) -> Iterator[pa.RecordBatch]:
    news = Event()
    partition.open(news.set)
    while True:
        news.clear()
        item = partition.read()
        if isinstance(item, End):
            return
        if isinstance(item, Pause):
            left = 0.1 if item.until is None else min(0.1, (item.until - monotonic_ns()) / 1e9)
            news.wait(max(0.0, left))
        elif isinstance(item, pa.RecordBatch) and item.num_rows:
            yield item
