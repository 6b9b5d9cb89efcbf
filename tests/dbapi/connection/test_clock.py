"""`connect(clock=…)`: a connection whose time a test controls, and `settle`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import DAG, Connection, ErrorCode
from runnel.processor import Processor
from runnel.testing import ManualClock
from tests.waiting import eventually

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
PATIENCE = 30
MAP = (
    "CREATE MAPPING {} (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall_start=START)


@pytest.fixture
def con(clock: ManualClock) -> Iterator[Connection]:
    with runnel.connect(clock=clock) as made:
        yield made


def available(cursor: runnel.Cursor) -> list[Any]:
    """The rows that have arrived."""
    try:
        return cursor.fetchmany(1000, timeout=0)
    except runnel.FetchTimeoutError:
        return []


# What the clock determines


def test_now(con: Connection, clock: ManualClock) -> None:
    query = "SELECT NOW(), CURRENT_DATE"
    assert con.execute(query).fetchone() == (START, START.date())
    clock.advance(DAY)
    assert con.execute(query).fetchone() == (START + DAY, (START + DAY).date())
    clock.set_wall(START - DAY)
    assert con.execute(query).fetchone() == (START - DAY, (START - DAY).date())


def test_rate_of_a_generator(con: Connection, clock: ManualClock) -> None:
    cursor = con.execute("SELECT v FROM TABLE(GENERATE_STREAM(10)) AS t(v)")
    con.settle()
    first = available(cursor)
    assert len(first) <= 1
    clock.advance(SECOND)
    con.settle()
    assert len(first + available(cursor)) in (10, 11)


def test_early_results_of_a_window(con: Connection, clock: ManualClock) -> None:
    writer = con.register_stream("s", {"k": "BIGINT", "ts": "TIMESTAMP"}, time_column="ts")
    cursor = con.execute(
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), "
        "INTERVAL '1' HOUR)) GROUP BY window_end EMIT EVERY INTERVAL '10' SECOND"
    )
    at, end = datetime(2030, 1, 1, 12, 5), datetime(2030, 1, 1, 13)
    writer.write([(1, at), (2, at)])
    con.settle()
    found = {}
    for passed in range(1, 16):
        clock.advance(SECOND)
        con.settle()
        found[passed] = available(cursor)
    # The two stages of the aggregation have timers of their own.
    assert [rows for rows in found.values() if rows] == [[(end, 2)]]
    assert found[10] or found[11]
    writer.write([(3, at), (4, end)])
    con.settle()
    assert available(cursor) == [(end, 3)], "the watermark closes the window"


def test_an_idle_stream(con: Connection, clock: ManualClock) -> None:
    a, b = (
        con.register_stream(
            name, {"ts": "TIMESTAMP"}, time_column="ts", idle_timeout=timedelta(minutes=1)
        )
        for name in "ab"
    )
    cursor = con.execute(
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE((SELECT ts FROM a UNION ALL "
        "SELECT ts FROM b), DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_end"
    )
    b.write([(datetime(2030, 1, 1, 10),)])
    a.write([(datetime(2030, 1, 1, 10),), (datetime(2030, 1, 1, 15),)])
    con.settle()
    clock.advance(59 * SECOND)
    con.settle()
    assert available(cursor) == []
    a.write([(datetime(2030, 1, 1, 16),)])
    con.settle()
    assert available(cursor) == [], "b may bring earlier rows"
    clock.advance(2 * SECOND)
    con.settle()
    assert (datetime(2030, 1, 1, 11), 2) in available(cursor), "b is idle"


def test_a_followed_file(con: Connection, clock: ManualClock, tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"v": 1}\n')
    con.execute(
        f"CREATE MAPPING f (v BIGINT) TYPE File OPTIONS ('path'='{path}', 'format'='json', "
        "'follow'='true', 'pollMillis'='60000')"
    )
    cursor = con.execute("SELECT v FROM f")
    con.settle()
    assert available(cursor) == [(1,)]
    with path.open("a") as file:
        file.write('{"v": 2}\n')
    con.settle()
    assert available(cursor) == [], "it is not looked at yet"
    clock.advance(61 * SECOND)
    con.settle()
    assert available(cursor) == [(2,)]


def test_times_of_changes_of_a_map(con: Connection, clock: ManualClock) -> None:
    con.execute(MAP.format("m"))
    cursor = con.execute("SELECT this, change_time FROM TABLE(CHANGES(TABLE m))")
    con.execute("SINK INTO m VALUES (1, 10)")
    clock.advance(SECOND)
    con.execute("SINK INTO m VALUES (1, 20)")
    clock.set_wall(START - DAY)
    con.execute("SINK INTO m VALUES (1, 30)")
    con.settle()
    times = [(10, START), (20, START + SECOND), (30, START + SECOND)]
    assert available(cursor) == times, "they never decrease"


# Named jobs


def copying(con: Connection, **options: str) -> runnel.NamedJob:
    """A job that copies a stream of numbers to the map `m`, once per interval of a second."""
    con.execute(MAP.format("m"))
    given = {"snapshotIntervalMillis": "1000"} | options
    text = ", ".join(f"'{name}'='{value}'" for name, value in given.items())
    con.execute(f"CREATE JOB j OPTIONS ({text}) AS SINK INTO m SELECT v, v FROM s")
    return con.job("j")


def test_a_job_writes_with_its_snapshots(con: Connection, clock: ManualClock) -> None:
    writer = con.register_stream("s", {"v": "BIGINT"})
    job = copying(con)
    assert job.record.created == clock.wall()
    writer.write([(1,), (2,)])
    con.settle()
    assert con.execute("SELECT COUNT(*) FROM m").fetchone() == (0,)
    clock.advance(2 * SECOND)
    con.settle()
    assert con.execute("SELECT COUNT(*) FROM m").fetchone() == (2,)
    assert job.uptime == 2
    shown = con.execute("SHOW JOBS FULL")
    names = [item.name for item in shown.description or ()]
    row = dict(zip(names, shown.fetchall()[0], strict=True))
    assert (row["started"], row["uptime"]) == (START, 2 * SECOND)
    assert row["snapshot_age"] == timedelta(0)
    writer.close()
    con.settle()
    clock.advance(2 * SECOND)
    con.settle()
    assert str(job.status) == "COMPLETED"
    clock.set_wall(START - DAY)
    assert job.uptime is not None and job.uptime >= 0


FAILS = Event()


class Unreliable(Processor):
    """Fails while `FAILS` is set, and never ends."""

    holds_snapshots = True

    def complete(self) -> bool:
        if FAILS.is_set():
            raise runnel.OperationalError("not now")
        self.context.wake_at(self.context.job.clock() + 1_000_000_000)
        return False


def test_a_failed_job_restarts_after_its_delay(con: Connection, clock: ManualClock) -> None:
    dag = DAG()
    dag.vertex("v", Unreliable, 1)
    FAILS.clear()
    job = con.submit(dag, name="j", guarantee="atLeastOnce")
    con.settle()
    assert (str(job.status), job.record.restarts) == ("RUNNING", 0)
    FAILS.set()
    clock.advance(SECOND)
    con.settle()
    assert (str(job.status), job.record.restarts) == ("NOT_RUNNING", 0)
    FAILS.clear()
    con.settle()
    assert str(job.status) == "NOT_RUNNING", "it waits for its delay"
    clock.advance(timedelta(minutes=5))
    con.settle()
    assert (str(job.status), job.record.restarts) == ("RUNNING", 1)


def test_ended_jobs_are_retained_by_the_clock(con: Connection, clock: ManualClock) -> None:
    def ended(name: str) -> None:
        con.execute(
            f"CREATE JOB {name} OPTIONS ('resultRetentionMillis'='86400000') AS "
            "SINK INTO m VALUES (1, 1)"
        )
        con.settle()

    con.execute(MAP.format("m"))
    ended("a")
    clock.set_wall(START - 100 * DAY)  # set back: jobs are retained for longer
    ended("b")
    assert [con.job(name).name for name in ("a", "b")] == ["a", "b"]
    assert con.job("a").id < con.job("b").id, "ids are in order, all the same"
    clock.set_wall(START + 2 * DAY)
    ended("c")
    for name in ("a", "b"):
        with pytest.raises(runnel.ProgrammingError, match="not found"):
            con.job(name)
    clock.set_wall(datetime(9999, 12, 31))  # far forwards
    ended("d")
    ended("e")
    assert con.job("e").id > 0 and con.job("e").id != con.job("d").id


def test_ages_of_snapshots(clock: ManualClock, tmp_path: Path) -> None:
    with runnel.connect(tmp_path, clock=clock) as con:
        writer = con.register_stream("s", {"v": "BIGINT"})
        job = copying(con)
        writer.write([(1,)])
        con.settle()
        clock.advance(2 * SECOND)
        con.settle()
        assert job.last_snapshot is not None
        con.execute("CREATE SNAPSHOT kept FOR JOB j")
        ((created,),) = [row[2:3] for row in con.execute("SHOW SNAPSHOTS").fetchall()]
        assert created == START + 2 * SECOND


# Timeouts are real


def test_timeouts_of_statements_are_real(con: Connection, clock: ManualClock) -> None:
    con.register_stream("s", {"v": "BIGINT"})
    con.execute("SELECT v FROM s").close()
    cursor = con.execute("SELECT v FROM s", timeout=0.3)
    with pytest.raises(runnel.OperationalError, match="took longer than its time-out"):
        cursor.fetchone()
    cursor = con.execute("SELECT v FROM s", timeout=PATIENCE)
    clock.advance(DAY)
    con.settle()
    with pytest.raises(runnel.FetchTimeoutError):
        cursor.fetchone(timeout=0)


# Settling


def test_settle_after_writes(con: Connection) -> None:
    writer = con.register_stream("s", {"v": "BIGINT"})
    cursor = con.execute("SELECT v + 1 FROM s WHERE v % 2 = 0")
    for number in range(0, 2000, 100):
        writer.write([(v,) for v in range(number, number + 100)])
        con.settle()
        assert available(cursor) == [(v + 1,) for v in range(number, number + 100, 2)]


def test_settle_with_nothing_to_do(con: Connection) -> None:
    con.settle()
    con.settle(timeout=0.5)
    cursor = con.execute("SELECT v FROM TABLE(GENERATE_SERIES(1, 10000000)) AS t(v)")
    con.settle()
    assert con.jobs(), "it waits for its reader"
    assert cursor.fetchone() == (1,)


def test_settle_in_time(con: Connection) -> None:
    begins, goes_on = Event(), Event()

    def wait(values: pa.Array) -> pa.Array:
        begins.set()
        goes_on.wait(PATIENCE)
        return values

    con.create_function("wait", wait, [int], int)
    writer = con.register_stream("s", {"v": "BIGINT"})
    cursor = con.execute("SELECT wait(v) FROM s")
    writer.write([(1,)])
    assert begins.wait(PATIENCE)
    with pytest.raises(runnel.OperationalError, match="did not settle within") as caught:
        con.settle(timeout=0.05)
    assert caught.value.code is ErrorCode.TIMEOUT
    assert caught.value.detail is not None and "works" in caught.value.detail
    goes_on.set()
    con.settle()
    assert available(cursor) == [(1,)]
    for timeout in (-1, float("nan"), "1", True, None):
        with pytest.raises(runnel.InterfaceError):
            con.settle(timeout=timeout)  # type: ignore[arg-type]
    con.close()
    with pytest.raises(runnel.InterfaceError, match="closed"):
        con.settle()


def test_settle_with_the_computers_clock(connection: Connection) -> None:
    writer = connection.register_stream("s", {"v": "BIGINT"})
    cursor = connection.execute("SELECT v FROM s")
    writer.write([(1,)])
    connection.settle()
    assert available(cursor) == [(1,)]


# Other clocks


class OwnClock:
    """A clock of an application: the time that it is set to."""

    def __init__(self) -> None:
        self.now: Any = 1_000
        self.seconds: Any = 1_900_000_000_000_000
        self.moved: list[Callable[[], None]] = []

    def monotonic(self) -> int:
        return self.now

    def wall(self) -> int:
        return self.seconds

    def timeout(self, until: int) -> float | None:
        return None

    def subscribe(self, moved: Callable[[], None]) -> None:
        self.moved.append(moved)

    def set(self, now: Any) -> None:
        self.now = now
        for moved in self.moved:
            moved()


def test_a_clock_of_ones_own() -> None:
    clock = OwnClock()
    with runnel.connect(clock=clock) as con:
        cursor = con.execute("SELECT v FROM TABLE(GENERATE_STREAM(10)) AS t(v)")
        con.settle()
        first = available(cursor)
        clock.set(1_000_001_000)
        con.settle()
        assert len(first + available(cursor)) in (10, 11)
        assert con.execute("SELECT NOW()").fetchone() == (datetime.fromtimestamp(1.9e9, UTC),)


@pytest.mark.parametrize(
    ("clock", "message", "hint"),
    [
        (
            object(),
            "a value of class object is no clock: it has no method monotonic, wall",
            "runnel.Clock",
        ),
        (time, "a value of class module is no clock: it has no method wall", "ManualClock"),
        (5, "a value of class int is no clock", "runnel.Clock"),
        (ManualClock, "clock is the class ManualClock, not an object of it", "ManualClock()"),
        (OwnClock, "clock is the class OwnClock", "OwnClock()"),
    ],
)
def test_no_clock(clock: Any, message: str, hint: str) -> None:
    with pytest.raises(runnel.InterfaceError) as caught:
        runnel.connect(clock=clock)
    assert caught.value.message.startswith(message)
    assert caught.value.hint is not None and hint in caught.value.hint


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("now", 1.5, "monotonic() of the clock returned 1.5, not an int"),
        ("now", True, "monotonic() of the clock returned True, not an int"),
        ("now", 1 << 70, "out of range"),
        ("seconds", None, "wall() of the clock returned None, not an int"),
        ("seconds", 1.9e15, "not an int"),
        ("seconds", 10**30, "out of range"),
    ],
)
def test_a_clock_with_wrong_readings(attribute: str, value: Any, message: str) -> None:
    clock = OwnClock()
    setattr(clock, attribute, value)
    with pytest.raises(runnel.InterfaceError) as caught:
        runnel.connect(clock=clock)
    assert message in caught.value.message


def test_a_clock_that_goes_back() -> None:
    clock = OwnClock()
    with runnel.connect(clock=clock) as con:
        con.register_stream("s", {"v": "BIGINT"})
        cursor = con.execute("SELECT v FROM s")
        con.settle()
        clock.set(999)
        with pytest.raises(runnel.InterfaceError) as caught:
            cursor.fetchone(timeout=PATIENCE)
        assert caught.value.message == "the clock went back: monotonic() returned 999 after 1000"
        assert caught.value.hint is not None and "only wall()" in caught.value.hint
        for _ in range(2):
            with pytest.raises(runnel.InterfaceError, match="the clock went back"):
                con.execute("SELECT 1")
        with pytest.raises(runnel.InterfaceError, match="the clock went back"):
            con.settle()


def test_a_clock_that_fails() -> None:
    clock = OwnClock()
    with runnel.connect(clock=clock) as con:
        assert con.execute("SELECT 1").fetchone() == (1,)
        clock.now = None
        with pytest.raises(runnel.InterfaceError, match="returned None, not an int"):
            while True:
                con.execute("SELECT 1").fetchall()


def test_a_clock_of_two_connections(clock: ManualClock) -> None:
    with runnel.connect(clock=clock) as one, runnel.connect(clock=clock) as other:
        cursors = [
            con.execute("SELECT v FROM TABLE(GENERATE_STREAM(10)) AS t(v)") for con in (one, other)
        ]
        one.settle()
        other.settle()
        clock.advance(SECOND)
        for con, cursor in zip((one, other), cursors, strict=True):
            con.settle()
            assert len(available(cursor)) >= 10


def test_advancing_while_others_read(con: Connection, clock: ManualClock) -> None:
    cursor = con.execute("SELECT v FROM TABLE(GENERATE_STREAM(1000)) AS t(v)")
    found: list[Any] = []

    def read() -> None:
        while len(found) < 3000:
            found.extend(cursor.fetchmany(1000, timeout=PATIENCE))

    thread = Thread(target=read)
    thread.start()
    assert eventually(lambda: clock.advance(SECOND / 10) or not thread.is_alive())
    thread.join()
    assert found == [(v,) for v in range(len(found))]


def test_a_server_has_its_own_clock(clock: ManualClock) -> None:
    with pytest.raises(runnel.InterfaceError, match='"clock" is for connections of this process'):
        runnel.connect("runnel://127.0.0.1:1", token="t", clock=clock)


def test_manual_clock() -> None:
    clock = ManualClock(wall_start=datetime(1970, 1, 1, 0, 0, 1))
    assert clock.wall() == 1_000_000 and clock.monotonic() == 0
    clock.advance(timedelta(milliseconds=1))
    assert (clock.wall(), clock.monotonic()) == (1_001_000, 1_000_000)
    clock.set_wall(5)
    assert (clock.wall(), clock.monotonic()) == (5, 1_000_000)
    with pytest.raises(ValueError, match="time doesn't go back"):
        clock.advance(-SECOND)
