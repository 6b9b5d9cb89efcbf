"""TYPE DataGen: rows at a rate on a stopped clock, the same rows in batches of any size and after a
restart."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel import Connection
from runnel.testing import ManualClock
from tests.waiting import eventually

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
COLUMNS = (
    "(id BIGINT, price DECIMAL(8, 2), name VARCHAR, ok BOOLEAN, data VARBINARY, tags VARCHAR[], "
    "point ROW(x REAL, y DOUBLE), at TIMESTAMP, day DATE, time TIME)"
)
SEQUENCE = "'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{}'"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall_start=START)


@pytest.fixture
def con(clock: ManualClock) -> Iterator[Connection]:
    with runnel.connect(clock=clock) as made:
        yield made


def available(cursor: runnel.Cursor) -> list[Any]:
    try:
        return cursor.fetchmany(100_000, timeout=0)
    except runnel.FetchTimeoutError:
        return []


def test_rows_are_due_at_the_rate(con: Connection, clock: ManualClock) -> None:
    con.execute(
        "CREATE MAPPING g (id BIGINT, at TIMESTAMP, zoned TIMESTAMP WITH TIME ZONE) TYPE DataGen "
        "OPTIONS ('rowsPerSecond' = '10', " + SEQUENCE.format(25) + ")"
    )
    cursor = con.execute("SELECT id, at, zoned FROM g")
    con.settle()
    rows = available(cursor)
    assert rows == [(1, START.replace(tzinfo=None), START)]
    clock.advance(SECOND)
    con.settle()
    rows += available(cursor)
    assert [row[0] for row in rows] == list(range(1, 12))
    assert rows[3][2] == START + 3 * SECOND / 10
    clock.advance(10 * SECOND)
    assert [row[0] for row in rows + cursor.fetchall()] == list(range(1, 26))


def test_windows_over_the_time_of_rows(con: Connection, clock: ManualClock) -> None:
    con.execute(
        "CREATE TABLE orders (id BIGINT, proc AS PROCTIME()) "
        "WITH ('connector' = 'datagen', 'rows-per-second' = '5')"
    )
    cursor = con.execute(
        "SELECT TUMBLE_END(proc, INTERVAL '1' MINUTE), COUNT(*) FROM orders "
        "GROUP BY TUMBLE(proc, INTERVAL '1' MINUTE)"
    )
    clock.advance(59 * SECOND)
    con.settle()
    assert available(cursor) == []
    clock.advance(62 * SECOND)
    con.settle()
    assert available(cursor) == [(START + 60 * SECOND, 300), (START + 120 * SECOND, 300)]


ENDING = (
    "CREATE TABLE g (id BIGINT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts) WITH "
    "('connector' = 'datagen', 'rows-per-second' = '5', {})"
)
PER_SECOND = (
    "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
    "GROUP BY window_start, window_end"
)


@pytest.mark.parametrize("bound", ["'number-of-rows' = '12'", SEQUENCE.format(12)])
def test_windows_of_a_table_that_ends_come_with_its_watermark(
    con: Connection, clock: ManualClock, bound: str
) -> None:
    con.execute(ENDING.format(bound))
    cursor = con.execute(PER_SECOND)
    found = []
    for _ in range(5):
        con.settle()
        found.append([(row[0].second, row[1]) for row in available(cursor)])
        clock.advance(SECOND)
    assert found == [[], [(1, 5)], [(2, 5)], [(3, 2)], []]


def test_a_table_that_ends_is_at_rest_where_no_stream_can_be_read() -> None:
    with runnel.connect() as con:
        con.execute(ENDING.replace("'5'", "'1000000'").format(SEQUENCE.format(12)))
        assert con.execute("SELECT COUNT(*) FROM g").fetchone() == (12,)
        pairs = "SELECT a.id FROM g a JOIN g b ON a.id = b.id"
        assert con.execute(f"SELECT COUNT(*) FROM ({pairs})").fetchone() == (12,)
        con.execute("CREATE TABLE copied AS SELECT id FROM g")
        con.execute("INSERT INTO copied SELECT id FROM g")
        assert con.execute("SELECT COUNT(*) FROM copied").fetchone() == (24,)
        assert "watermark" in str(con.execute("EXPLAIN " + PER_SECOND).fetchall())
        con.execute("BEGIN")
        assert con.execute(PER_SECOND).fetchall()[0][1] == 12


def test_a_job_over_a_table_that_ends_writes_each_window(
    con: Connection, clock: ManualClock
) -> None:
    con.execute(ENDING.format("'number-of-rows' = '12'"))
    con.execute("CREATE TABLE out (at TIMESTAMP, n BIGINT)")
    con.execute(
        "CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '100') AS INSERT INTO out " + PER_SECOND
    )
    counts = []
    for _ in range(4):
        con.settle()
        clock.advance(SECOND / 10)
        con.settle()
        counts.append(con.execute("SELECT COUNT(*) FROM out").fetchone())
        clock.advance(9 * SECOND / 10)
    assert counts == [(0,), (1,), (2,), (3,)]
    assert eventually(lambda: con.job("j").status.name == "COMPLETED", 20)


def test_a_row_does_not_depend_on_its_batch(con: Connection, clock: ManualClock) -> None:
    for name, rate in (("at_once", 10**9), ("slowly", 100)):
        con.execute(
            f"CREATE MAPPING {name} {COLUMNS} TYPE DataGen OPTIONS ('rowsPerSecond' = '{rate}', "
            "'numberOfRows' = '1000', 'startTime' = '2026-01-01 00:00:00', "
            "'fields.at.max-past' = '2 h', 'fields.ok.null-rate' = '0.25', "
            "'fields.tags.element.var-len' = 'true', 'fields.data.length' = '5')"
        )
    columns = "id, price, name, ok, data, tags, point"
    slow = con.execute(f"SELECT {columns} FROM slowly")
    rows: list[Any] = []
    for _ in range(11):
        con.settle()
        rows += available(slow)
        clock.advance(SECOND)
    clock.advance(SECOND)
    expected = con.execute(f"SELECT {columns} FROM at_once")
    clock.advance(SECOND)
    assert rows == expected.fetchall()
    assert len({row[0] for row in rows}) == 1000
    assert 150 < sum(row[3] is None for row in rows) < 350
    assert {len(row[4]) for row in rows} == {5}
    assert all(0 <= row[1] < 10**6 and 0 <= row[6]["x"] < 1 for row in rows)


def test_another_seed_generates_other_rows(con: Connection, clock: ManualClock) -> None:
    found = []
    for seed in (1, 1, 2):
        con.execute(
            "CREATE OR REPLACE MAPPING g (v INTEGER) TYPE DataGen "
            f"OPTIONS ('numberOfRows' = '1', 'seed' = '{seed}')"
        )
        found.append(con.execute("SELECT v FROM g").fetchall())
    assert found[0] == found[1] != found[2]


def test_a_job_continues_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(wall_start=START)
    with runnel.connect(str(tmp_path / "db"), clock=clock) as con:
        con.execute(
            "CREATE MAPPING g (id BIGINT, v INTEGER, at TIMESTAMP) TYPE DataGen OPTIONS "
            "('rowsPerSecond' = '10', " + SEQUENCE.format(50) + ")"
        )
        con.execute("CREATE TABLE out (id BIGINT, v INTEGER, at TIMESTAMP)")
        con.execute("CREATE JOB j AS INSERT INTO out SELECT id, v, at FROM g")
        con.settle()
        clock.advance(2 * SECOND)
        con.settle()
        con.execute("ALTER JOB j SUSPEND")
        assert con.execute("SELECT MAX(id) FROM out").fetchone() == (21,)
    with runnel.connect(str(tmp_path / "db"), clock=clock) as con:
        clock.advance(100 * SECOND)
        con.execute("ALTER JOB j RESUME")
        con.settle()
        for _ in range(4):
            clock.advance(SECOND)
            con.settle()
        assert eventually(lambda: con.job("j").status.name == "COMPLETED", 20)
        rows = con.execute("SELECT id, v, at FROM out ORDER BY id").fetchall()
        assert [row[0] for row in rows] == list(range(1, 51))
        con.execute("CREATE TABLE again (id BIGINT, v INTEGER)")
        con.execute(
            "CREATE OR REPLACE MAPPING g (id BIGINT, v INTEGER) TYPE DataGen OPTIONS "
            "('rowsPerSecond' = '1000000000', " + SEQUENCE.format(50) + ")"
        )
        query = con.execute("SELECT id, v FROM g ORDER BY id")
        clock.advance(SECOND)
        assert query.fetchall() == [row[:2] for row in rows]
        # Event time follows the rows, not the time for which the job was suspended.
        assert [row[2] for row in rows[19:23]] == [
            START.replace(tzinfo=None) + i * SECOND / 10 for i in range(19, 23)
        ]


def test_a_stream_is_read_again_up_to_a_position(con: Connection, clock: ManualClock) -> None:
    con.execute(
        "CREATE MAPPING g (v INTEGER, at TIMESTAMP) TYPE DataGen OPTIONS ('rowsPerSecond' = '10')"
    )
    con.execute("CREATE TABLE out (v INTEGER, at TIMESTAMP)")
    con.execute("CREATE JOB j AS INSERT INTO out SELECT v, at FROM g")
    con.settle()
    clock.advance(2 * SECOND)
    con.settle()
    con.execute("ALTER JOB j SUSPEND")
    assert con.execute("VERIFY JOB j").fetchall()[0][:2] == ("equal", 21)
