"""The log of late events: each event, its time, the watermark and the lateness, and the rate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.dag import DAG, between
from runnel.expressions.context import EvaluationContext
from runnel.processor import JobContext
from runnel.processors.library import (
    accumulate_by_pane,
    aggregate_by_window,
    combine_by_window,
    counting,
    insert_watermarks,
    sink_to_list,
    source_of,
    tumbling,
)
from runnel.processors.stateful import late_event
from runnel.processors.stateful.late_candidates import LateCandidates, copied_row
from runnel.processors.stateful.late_rows import LOG_INTERVAL, LateRows
from runnel.testing import ManualClock
from tests.jobs.hand_built import steps
from tests.streams.scripted_table import HOLD, ScriptedTable

BASE = datetime(2026, 1, 1, 14, 23, 10)
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("page", pa.string())])
ZONED = SCHEMA.set(0, pa.field("ts", pa.timestamp("us", "UTC")))
NUMBERED = SCHEMA.set(0, pa.field("ts", pa.int64()))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def con(clock: ManualClock) -> Iterator[runnel.Connection]:
    with runnel.connect(query_parallelism=1, clock=clock) as connection:
        connection.execute("CREATE MAPPING late (ts TIMESTAMP, k BIGINT, page VARCHAR) TYPE DuckDB")
        yield connection


def rows(schema: pa.Schema, *values: tuple[Any, ...]) -> pa.RecordBatch:
    columns = [
        pa.array(column, kind)
        for column, kind in zip(zip(*values, strict=False), schema.types, strict=False)
    ]
    return pa.record_batch(columns, schema=schema)


def stream(connection: runnel.Connection, schema: pa.Schema, *batches: pa.RecordBatch) -> None:
    connection._register("s", ScriptedTable("s", schema, [batches], EventTime(0, 0, 0)))


def after(seconds: float) -> datetime:
    return BASE + timedelta(seconds=seconds)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [item for item in caplog.records if item.name == "runnel.job.late"]
    assert all(item.levelno == logging.WARNING for item in found)
    return [item.getMessage() for item in found]


def test_the_message(con: runnel.Connection, caplog: pytest.LogCaptureFixture) -> None:
    early, late = (
        (after(0.256), 1, "a"),
        (after(0.123), 7, "a page with a name of more than 40 chars"),
    )
    stream(con, SCHEMA, rows(SCHEMA, early), rows(SCHEMA, late))
    con.execute("SELECT * FROM s ORDER BY ts").fetchall()
    assert messages(caplog) == [
        'late event dropped in vertex "sort", late by 133ms: '
        "watermark=2026-01-01 14:23:10.256000, eventTime=2026-01-01 14:23:10.123000, "
        "event=(ts=2026-01-01 14:23:10.123000, k=7, "
        "page='a page with a name of more than 40 cha…); 1 in all"
    ]


ON_STREAMS = {
    "order": "SELECT * FROM s ORDER BY ts",
    "over": "SELECT SUM(k) OVER (ORDER BY ts RANGE BETWEEN {u} PRECEDING AND CURRENT ROW) FROM s",
    "running": "SELECT ts, COUNT(*) OVER (ORDER BY ts) FROM s",
    "distinct on": "SELECT DISTINCT ON (ts) * FROM s ORDER BY ts, k",
    "group by time": "SELECT ts, k, COUNT(*) FROM s GROUP BY ts, k",
    "sessions": "SELECT COUNT(*) FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), {u})) "
    "GROUP BY k, window_end",
    "rows of sessions": "SELECT * FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), {u}))",
    "join": "SELECT a.k FROM s a JOIN s b ON a.k = b.k AND a.ts BETWEEN b.ts - {u} AND b.ts + {u}",
}


@pytest.mark.parametrize("name", ON_STREAMS)
@pytest.mark.parametrize("schema", [SCHEMA, ZONED, NUMBERED], ids=["plain", "zoned", "numbered"])
def test_operators(
    con: runnel.Connection, caplog: pytest.LogCaptureFixture, name: str, schema: pa.Schema
) -> None:
    """Each logs the event, and lateness is the watermark minus the event time."""
    con.execute("SET TIME ZONE 'Asia/Tokyo'")
    as_time: Callable[[float], Any] = {
        SCHEMA: after,
        ZONED: lambda seconds: after(seconds).replace(tzinfo=UTC),
        NUMBERED: int,
    }[schema]
    first = rows(schema, (as_time(90), 1, "a"), (as_time(0), 1, "b"))
    stream(con, schema, first, rows(schema, (as_time(15), 7, "c"), (as_time(5), 8, "d")))
    unit = "1" if schema is NUMBERED else "INTERVAL '1' SECOND"
    con.execute(ON_STREAMS[name].format(u=unit)).fetchall()
    message = messages(caplog)[0]
    lateness, watermark, time = {
        SCHEMA: ("85000ms", "2026-01-01 14:24:40", "2026-01-01 14:23:15"),
        ZONED: ("85000ms", "2026-01-01 23:24:40+09:00", "2026-01-01 23:23:15+09:00"),
        NUMBERED: ("85", "90", "5"),
    }[schema]
    assert f"late by {lateness}: watermark={watermark}, " in message
    assert f"={time}, event=(" in message
    assert "k=8" in message or name == "running"


WINDOWS = {
    "tumble": "TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "hop": "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND)",
    "cumulate": "CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(
    con: runnel.Connection, caplog: pytest.LogCaptureFixture, name: str, parallelism: int
) -> None:
    """Each logs the event with its own time, also if several processors have accumulated groups,
    and lateness is the watermark minus the event time."""
    con.execute(f"SET query_parallelism = {parallelism}")
    first = rows(SCHEMA, (after(2), 8, "c"), (after(90), 1, "a"))
    late = rows(SCHEMA, (after(2.5), 8, "d"), (after(1.5), 8, "d"))
    table = ScriptedTable("s", SCHEMA, [[first, HOLD, late]], EventTime(0, 0, 0))
    con._register("s", table)
    cursor = con.execute(
        f"SELECT window_end, k, COUNT(*) FROM TABLE({WINDOWS[name]}) GROUP BY window_end, k"
    )
    # The watermark has passed the window in the processor that groups the key.
    assert cursor.fetchone() == (after(5 if name != "tumble" else 10), 8, 1)
    table.release()
    cursor.fetchall()
    message = messages(caplog)[0]
    assert "late by 88500ms: watermark=2026-01-01 14:24:40, " in message
    assert "eventTime=2026-01-01 14:23:11.500000, event=(" in message
    assert "k=8" in message


def test_stored_rows_of_windows() -> None:
    """The last ones are stored, for a bounded number of windows."""
    candidates = LateCandidates(JobContext(0, EvaluationContext((), 0, "UTC"), lambda: 0), "w")
    batch = rows(NUMBERED, (15, 1, "a"), (12, 2, "b"), (27, 3, "c"))
    panes, times = np.array([20, 20, 30]), np.array([15, 12, 27])

    def keys(*ends: int) -> list[Any]:
        found = [candidates.get(end) for end in ends]
        return [None if event is None else event.row["k"][0].as_py() for event in found]

    candidates.add(panes, times, lambda number: copied_row(batch, number))
    assert keys(20, 30, 40) == [2, 3, None]
    candidates.add(panes[:1], times[:1], lambda number: copied_row(batch, number))
    assert keys(20, 30) == [1, 3]
    for first in range(100, 300, 10):
        more = np.arange(first, first + 10)
        candidates.add(more, more - 5, lambda number: copied_row(batch, 0))
    assert keys(20, 100, 299) == [None, None, 1]


@pytest.mark.parametrize("kind", ["sql", "own"])
@pytest.mark.parametrize("stages", [1, 2])
def test_windows_of_hand_built_dags(
    con: runnel.Connection, caplog: pytest.LogCaptureFixture, kind: str, stages: int
) -> None:
    batches = [rows(NUMBERED, (90, 1, "a")), rows(NUMBERED, (7, 8, "d"), (3, 8, "d"))]
    operation = counting() if kind == "sql" else steps.COUNTED
    arguments: Any = {"time": "ts", "window": tumbling(10), "n": operation}
    dag = DAG()
    last = dag.vertex("rows", source_of(batches), 1)
    made = (
        [aggregate_by_window("k", **arguments)]
        if stages == 1
        else [accumulate_by_pane("k", **arguments), combine_by_window("k", **arguments)]
    )
    found: list[pa.RecordBatch] = []
    for name, step in zip(
        ("order", "first", "second")[: 1 + stages], [insert_watermarks("ts"), *made], strict=True
    ):
        vertex = dag.vertex(name, step, 1)
        dag.edge(between(last, vertex))
        last = vertex
    dag.edge(between(last, dag.vertex("sink", sink_to_list(found), 1)))
    con.submit(dag).join(60)
    name = "first" if stages == 1 else "second"
    assert messages(caplog) == [
        f'late event dropped in vertex "{name}", late by 87: watermark=90, eventTime=3, '
        "event=(ts=3, k=8, page='d'); 2 in all"
    ] or messages(caplog) == [
        f'late event dropped in vertex "{name}", late by 87: watermark=90, eventTime=3, '
        "event=(ts=3, k=8, page='d'); 1 more since the last message, late by up to 87; 2 in all"
    ]


def test_late_data_into(con: runnel.Connection, caplog: pytest.LogCaptureFixture) -> None:
    stream(con, SCHEMA, rows(SCHEMA, (after(90), 1, "a")), rows(SCHEMA, (after(0), 8, "d")))
    con.execute("SELECT ts, k FROM s ORDER BY ts LATE DATA INTO late").fetchall()
    assert messages(caplog)[0].startswith("late event written to LATE DATA INTO in vertex")


def test_the_rate_is_bounded(
    con: runnel.Connection, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """One message at once, then one per interval of the job's clock, which counts the others; the
    last at the end."""

    late = [rows(SCHEMA, *((after(-n), n, "x") for n in range(100))) for _ in range(50)]
    stream(con, SCHEMA, rows(SCHEMA, (after(0.5), 1, "a")), *late)
    con.execute("SELECT * FROM s ORDER BY ts").fetchall()
    found = messages(caplog)
    assert len(found) == 2
    assert "late by 99500ms" in found[0] and "99 more since the last message" in found[0]
    assert found[0].endswith("; 100 in all")
    assert "4899 more since the last message" in found[1] and found[1].endswith("; 5000 in all")


def test_the_next_interval(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    job = SimpleNamespace(
        clock=clock.monotonic, logged_at={}, evaluation=SimpleNamespace(zone="UTC")
    )
    logger = logging.getLogger("runnel.job")
    processors = [
        SimpleNamespace(context=SimpleNamespace(job=job, vertex=vertex, logger=logger))
        for vertex in ("a", "a", "b")
    ]
    found = [LateRows(item, "", False) for item in processors]  # type: ignore[arg-type]
    row = pa.record_batch({"k": [1]})
    asked: list[int] = []

    def event(number: int) -> late_event.LateEvent:
        asked.append(number)
        return late_event.LateEvent(row, 5)

    def add(which: int, *lateness: int) -> int:
        before = len(messages(caplog))
        found[which].add(len(lateness), np.array(lateness, np.int64), 9, event)
        return len(messages(caplog)) - before

    assert add(0, 3, 4) == 1
    assert [add(0, 1), add(0, 7), add(0, 2)] == [0, 0, 0]
    assert len(asked) == 2, "the row of a message is looked up, and one for the next message"
    assert add(1, 6) == 0, "the rate is that of the vertex"
    assert add(2, 6) == 1, "and not of the job"
    clock.advance(LOG_INTERVAL)
    assert add(0, 5) == 1
    assert "3 more since the last message, late by up to 7; 6 in all" in messages(caplog)[-1]
    assert add(1, 5) == 0
    found[1].log()
    assert messages(caplog)[-1].endswith("1 more since the last message, late by up to 6; 2 in all")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, pa.string(), "NULL"),
        ("it's", pa.string(), '"it\'s"'),
        (b"\x01\xff", pa.binary(), "X'01ff'"),
        (b"\x01" * 10_000_000, pa.binary(), "X'" + "01" * 18 + "0…"),
        ([1, 2], pa.list_(pa.int64()), "[1, 2]"),
        (1 << 62, pa.timestamp("us"), "?"),
        (1.5, pa.float64(), "1.5"),
    ],
)
def test_values(value: Any, kind: pa.DataType, text: str) -> None:
    row = pa.record_batch([pa.array([value], kind)], names=["v"])
    assert late_event.event_text(row, "UTC") == f"(v={text})"


def test_an_event_of_many_columns_is_shortened() -> None:
    row = pa.record_batch({f"column_{n}": [n] for n in range(1000)})
    text = late_event.event_text(row, "UTC")
    assert text.startswith("(column_0=0, ") and text.endswith(", …)") and len(text) < 300


def test_times_out_of_range_are_numbers() -> None:
    assert late_event.time_text(1 << 62, late_event.PLAIN, "UTC") == f"{1 << 62} µs"
    assert late_event.time_text(-5, "", "UTC") == "-5"


def test_the_log_can_be_switched_off(
    con: runnel.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("runnel.job.late")
    logger.setLevel(logging.ERROR)
    try:
        stream(con, SCHEMA, rows(SCHEMA, (after(9), 1, "a")), rows(SCHEMA, (after(0), 8, "d")))
        con.execute("SELECT * FROM s ORDER BY ts").fetchall()
        assert not caplog.records
    finally:
        logger.setLevel(logging.NOTSET)
