"""ALTER JOB with small changes to queries of many shapes: what comes is right, or the change is refused and nothing is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, JobStatus
from tests.effort import some
from tests.jobs.small_changes import (
    AFTER,
    BEFORE,
    CHANGE,
    CHANGES,
    SHAPES,
    SINKS,
    TABLES,
    Query,
    Row,
    Shape,
    Small,
    over_tables,
    text,
)
from tests.waiting import eventually

PATIENCE = 20
NAMES = ("k", "ts", "v")
SCHEMA = pa.schema([(name, pa.int64()) for name in NAMES])
Rows = list[tuple[int | None, ...]]


@contextmanager
def streaming(parallelism: int) -> Iterator[tuple[Connection, dict[str, Any]]]:
    with runnel.connect() as connection:
        connection.execute(f"SET query_parallelism = {parallelism}")
        for statement in (*TABLES, *SINKS):
            connection.execute(statement)
        yield connection, {name: connection.register_stream(name, SCHEMA, time_column="ts", max_disorder=0) for name in "st"}


def put(connection: Connection, writers: dict[str, Any], rows: Sequence[Row]) -> None:
    """Writes rows to the streams, and waits until what they complete has come to the sink."""
    job = connection.job("j")
    for writer in writers.values():
        writer.write(rows)
    assert eventually(lambda: told_sink(job) >= CHANGE - 10 * (len(writers) - 1), PATIENCE)


def told_sink(job: Any) -> int:
    times = [vertex.watermark for name, vertex in job.metrics().items() if name.startswith("write o")]
    return max((time for time in times if time is not None), default=-1)


def finished(connection: Connection, writers: dict[str, Any]) -> Rows:
    for writer in writers.values():
        writer.write(AFTER)
        writer.close()
    connection.job("j").join(PATIENCE)
    return ordered(connection.execute("SELECT * FROM o UNION ALL SELECT * FROM o2").fetchall())


def ordered(rows: Sequence[tuple[int | None, ...]]) -> Rows:
    return sorted(rows, key=str)


def expected(shape: Shape, queries: tuple[Query, Query], is_strict: bool = False) -> Rows:
    """What comes in all where the second query takes the place of the first."""
    old, new = queries
    given = [row for row in over((BEFORE,), old, over_tables(shape, old, old, -1, is_strict)) if shape.is_due(row)]
    if shape.since:
        old, new = (replace(query, above=(*query.above, shape.since)) for query in queries)
    later = over((BEFORE, AFTER), new, over_tables(shape, new, old, 1, is_strict))
    return ordered([*given, *(row for row in later if shape.since or not shape.is_due(row))])


def over(parts: Sequence[Sequence[Row]], query: Query, text: str) -> Rows:
    """The result of a query over tables with these parts, as it comes into a sink."""
    rows = [(*row, part) for part, rows in enumerate(parts) for row in rows]
    table = pa.table([list(column) for column in zip(*rows, strict=True)], names=[*NAMES, "p"])
    with runnel.connect() as batch:
        for statement in (*TABLES, *SINKS):
            batch.execute(statement)
        for name in "st":
            batch.register(name, table)
        found = batch.execute(text).fetchall()
    return [tuple(row[query.order.index(name)] for name in ("e", "k", "n", "x")) for row in found]


def changed(shape: Shape, small: Small, restarts: bool) -> str:
    """Makes the change in the middle of a job, and looks at all that came. Says how it went."""
    queries = small.old, small.new
    streams = 2 if shape.two_streams else 1
    with streaming(small.parallelism[0]) as (connection, both):
        writers = {name: writer for name, writer in both.items() if name in "st"[:streams]}
        connection.execute(f"CREATE VIEW seen AS {text(shape, Query(), sink=False)}")
        connection.execute(f"CREATE JOB j AS {text(shape, small.old)}")
        put(connection, writers, BEFORE)
        connection.execute(f"SET query_parallelism = {small.parallelism[1]}")
        refusal = None
        try:
            connection.execute(f"ALTER JOB j AS {text(shape, small.new)}", timeout=PATIENCE)
        except runnel.OperationalError as error:
            refusal = error
        assert connection.job("j").status is JobStatus.RUNNING
        if restarts:
            connection.execute("ALTER JOB j RESTART", timeout=PATIENCE)
        found = finished(connection, writers)
    if refusal is not None:
        assert "can't go on from its snapshot" in refusal.message and refusal.detail and refusal.hint
        assert found == expected(shape, (small.old, small.old)), "a refusal changes nothing"
        return f"refused: {refusal.detail}"
    readings = [expected(shape, queries, is_strict) for is_strict in (False, True)]
    readings += [] if small.reads_as is None else [expected(shape, small.reads_as)]
    assert found in readings
    return "goes on"


CASES = [(shape, small) for shape in SHAPES for small in CHANGES if small.fits(shape)]


@pytest.mark.parametrize(("shape", "small"), some(CASES, 12), ids=lambda item: item.name)
def test_a_small_change(shape: Shape, small: Small) -> None:
    changed(shape, small, restarts=True)
