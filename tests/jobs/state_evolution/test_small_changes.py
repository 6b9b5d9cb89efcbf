"""ALTER JOB with small changes to queries of many shapes: what comes is right, or the change is
refused and nothing is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, JobStatus
from tests.effort import ALL
from tests.jobs.state_evolution.small_changes import (
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
    by_part,
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
        yield (
            connection,
            {
                name: connection.register_stream(name, SCHEMA, time_column="ts", max_disorder=0)
                for name in "st"
            },
        )


def put(connection: Connection, writers: dict[str, Any], rows: Sequence[Row]) -> None:
    """Writes rows to the streams, and waits until what they complete has come to the sink."""
    job = connection.job("j")
    for writer in writers.values():
        writer.write(rows)
    assert eventually(lambda: told_sink(job) >= CHANGE - 10 * (len(writers) - 1), PATIENCE)


def told_sink(job: Any) -> int:
    times = [
        vertex.watermark for name, vertex in job.metrics().items() if name.startswith("write o")
    ]
    return max((time for time in times if time is not None), default=-1)


def finished(connection: Connection, writers: dict[str, Any]) -> Rows:
    for writer in writers.values():
        writer.write(AFTER)
        writer.close()
    connection.job("j").join(PATIENCE)
    return ordered(connection.execute("SELECT * FROM o UNION ALL SELECT * FROM o2").fetchall())


def ordered(rows: Sequence[tuple[int | None, ...]]) -> Rows:
    return sorted(rows, key=str)


Tables = tuple[Connection, Connection]
"""Connections with the rows from before the change as tables, and with all rows."""


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    with over((BEFORE,)) as before, over((BEFORE, AFTER)) as after:
        yield before, after


@contextmanager
def over(parts: Sequence[Sequence[Row]]) -> Iterator[Connection]:
    rows = [(*row, part) for part, rows in enumerate(parts) for row in rows]
    table = pa.table([list(column) for column in zip(*rows, strict=True)], names=[*NAMES, "p"])
    with runnel.connect() as batch:
        for statement in (*TABLES, *SINKS):
            batch.execute(statement)
        for name in "st":
            batch.register(name, table)
        yield batch


def expected(
    tables: Tables, shape: Shape, queries: tuple[Query, Query], is_strict: bool = False
) -> Rows:
    """What comes in all where the second query takes the place of the first."""
    old, new = queries
    first = in_sink(tables[0], old, over_tables(shape, old, old, -1, is_strict))
    given = [row for row in first if shape.is_due(row)]
    if shape.since:
        old, new = (replace(query, above=(*query.above, shape.since)) for query in queries)
    later = in_sink(tables[1], new, over_tables(shape, new, old, 1, is_strict))
    return ordered([*given, *(row for row in later if shape.since or not shape.is_due(row))])


def in_sink(batch: Connection, query: Query, text: str) -> Rows:
    """The result of a query over tables as it comes into a sink."""
    found = batch.execute(text).fetchall()
    return [tuple(row[query.order.index(name)] for name in ("e", "k", "n", "x")) for row in found]


def changed(tables: Tables, shape: Shape, small: Small) -> str:
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
        connection.execute("ALTER JOB j RESTART", timeout=PATIENCE)
        found = finished(connection, writers)
    if refusal is not None:
        assert (
            "can't resume from its snapshot" in refusal.message and refusal.detail and refusal.hint
        )
        assert found == expected(tables, shape, (small.old, small.old)), "a refusal changes nothing"
        return f"refused: {refusal.detail}"
    readings = [(queries, False), (queries, True)]
    readings += [] if small.reads_as is None else [(small.reads_as, False)]
    readings += [(by_part(shape, small), False)] if small.keeps_values else []
    assert any(found == expected(tables, shape, read, is_strict) for read, is_strict in readings)
    return "goes on"


CASES = [(shape, small) for shape in SHAPES for small in CHANGES if small.fits(shape)]

TELLING = (
    "tumble: filter of window_end comes",
    "tumble: a distinct aggregate goes",
    "tumble: outer look-up goes",
    "hop: filter of window_start goes",
    "hop: join with a table comes",
    "cumulate: look-up comes",
    "session: filter of values comes",
    "session: filter of window_end comes",
    "session: look-up comes",
    "chained: filter of all comes",
    "join: other order of columns comes",
    "join: join with a table below comes",
    "join: filter of both sides comes",
    "three streams: only the other side comes",
    "outer join: look-up goes",
    "as of: another column of the other side comes",
    "over: other order of columns goes",
)
"""Those that went wrong, or were refused for no reason, while plans were compared by the texts of
their operators alone."""


def name_of(case: tuple[Shape, Small]) -> str:
    return f"{case[0].name}: {case[1].name}"


@pytest.mark.parametrize(
    "case", [case for case in CASES if ALL or name_of(case) in TELLING], ids=name_of
)
def test_a_small_change(tables: Tables, case: tuple[Shape, Small]) -> None:
    changed(tables, *case)


def of_shape(name: str, change: str) -> tuple[Shape, Small]:
    return next(
        (shape, small) for shape, small in CASES if (shape.name, small.name) == (name, change)
    )


KEPT = (
    *(
        ("session", change)
        for change in ("filter of window_end comes", "filter of keys comes", "look-up goes")
    ),
    *(("tumble", change) for change in ("filter of all comes", "join with a table goes")),
    *(
        ("join", change)
        for change in ("filter of values goes", "outer look-up comes", "another column comes")
    ),
)


@pytest.mark.parametrize("case", [of_shape(*item) for item in KEPT], ids=name_of)
def test_filters_and_look_ups_change_freely(case: tuple[Shape, Small]) -> None:
    shape, small = case
    with streaming(2) as (connection, _):
        connection.execute(f"CREATE JOB j AS {text(shape, small.old)}")
        found = explained(connection, text(shape, small.new))
    assert {
        line.partition(":")[0]: line
        for line in found
        if "write" not in line and not line.endswith(": kept")
    }.keys() <= {
        "  join",
        "  scan cities",
    }


def explained(connection: Connection, query: str, options: str = "") -> list[str]:
    lines = [
        row[0] for row in connection.execute(f"EXPLAIN ALTER JOB j {options} AS {query}").fetchall()
    ]
    start = lines.index("State")
    return lines[start + 1 : lines.index("", start)]


def test_state_is_not_dropped_where_another_step_begins_without_any() -> None:
    """But where that is said: by the option, or by a name of its own."""
    shape, small = of_shape("session", "filter of values comes")
    empties = "OPTIONS ('incompatibleState' = 'empty')"
    named = text(shape, small.new).replace("SELECT", "SELECT /*+ STATE(other) */", 1)
    with streaming(2) as (connection, writers):
        connection.execute(f"CREATE JOB j AS {text(shape, small.old)}")
        put(connection, {"s": writers["s"]}, BEFORE)
        found = " ".join(explained(connection, text(shape, small.new)))
        assert (
            "accumulate and combine and session: refused, as the rows of sessions would be "
            "stored now, where only"
        ) in found
        assert (
            "conditions and joins in the query that SESSION " in found
            and "aggregate: dropped" in found
        )
        with pytest.raises(runnel.OperationalError, match="its plan has changed") as caught:
            connection.execute(f"ALTER JOB j AS {text(shape, small.new)}", timeout=PATIENCE)
        assert "the rows of sessions would be stored now" in (caught.value.detail or "")
        assert "'incompatibleState' = 'empty'" in (caught.value.hint or "")
        assert "refused" not in " ".join(explained(connection, named))
        found = " ".join(" ".join(explained(connection, text(shape, small.new), empties)).split())
        assert (
            "starts empty" in found
            and "refused" not in found
            and "its first results miss the rows from before the change" in found
        )
        connection.execute(f"ALTER JOB j {empties} AS {text(shape, small.new)}", timeout=PATIENCE)
        result = finished(connection, {"s": writers["s"]})
    assert result and max(row[0] or 0 for row in result) == 101


def test_another_operator_over_the_same_stream_does_not_take_the_place_of_one_with_state() -> None:
    first, second = (
        "INSERT INTO o " + text(shape, Query(), sink=False) for shape in (SHAPES[0], SHAPES[-1])
    )
    with streaming(2) as (connection, writers):
        connection.execute(f"CREATE JOB j AS {first}")
        put(connection, {"s": writers["s"]}, BEFORE)
        with pytest.raises(runnel.OperationalError, match="its plan has changed") as caught:
            connection.execute(f"ALTER JOB j AS {second}", timeout=PATIENCE)
        assert 'the state of "accumulate", with rows of s, would be lost' in (
            caught.value.detail or ""
        )
        without = "INSERT INTO o SELECT ts, k, v, v FROM s"
        assert "  accumulate: dropped" in explained(connection, without), (
            "where nothing takes its place, that is what is asked for"
        )
