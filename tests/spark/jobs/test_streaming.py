"""Jobs over streams on Spark: the same as on our own runtime, with late rows, restarts and
failures."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Timer
from threading import enumerate as enumerate_threads
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from runnel.named_jobs.named_job import NamedJob
from tests.waiting import eventually

START = datetime(2024, 1, 1)
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])


class Feed:
    """Files of events, of which Spark takes one a batch, in the order in which they came."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._files = 0

    def add(self, *rows: tuple[float, str, int | None]) -> None:
        """A file of rows: seconds after the start, key, value."""
        times = [START + timedelta(seconds=seconds) for seconds, _, _ in rows]
        table = pa.table([times, [k for _, k, _ in rows], [v for _, _, v in rows]], schema=SCHEMA)
        self._files += 1
        unfinished = self.folder / f".{self._files}"
        pq.write_table(table, unfinished)
        os.utime(
            unfinished, (1_700_000_000 + self._files,) * 2
        )  # it is by these that Spark puts them in order
        unfinished.rename(self.folder / f"{self._files:03}.parquet")


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "in")


def follow(connection: runnel.Connection, name: str, folder: Path) -> None:
    connection.execute(f"""CREATE MAPPING {name} (
        ts TIMESTAMP, k VARCHAR, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
        TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{folder}', 'follow' = 'true',
            'maxFilesPerTrigger' = '1',
            'idleTimeoutMillis' = '0')""")


def sink(connection: runnel.Connection, name: str, path: Path) -> None:
    (path / name).mkdir()
    connection.execute(f"""CREATE MAPPING {name} (t TIMESTAMP, k VARCHAR, n BIGINT, s BIGINT)
        TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{path / name}')""")


def start(connection: runnel.Connection, runtime: str, into: str, query: str) -> runnel.Job:
    options = f"OPTIONS ('runtime' = '{runtime}', 'snapshotIntervalMillis' = '50')"
    connection.execute(f"CREATE JOB {into} {options} AS INSERT INTO {into} {query}")
    return connection.job(into)


def until(condition: Callable[[], bool], job: Any, seconds: float = 120) -> None:
    """Waits for something to come about while the job is well."""
    end, pause = monotonic() + seconds, Event()
    while not condition():
        if job.status in (runnel.JobStatus.FAILED, runnel.JobStatus.SUSPENDED):
            raise AssertionError(f"the job is {job.status}: {job.error}")
        assert monotonic() < end, "it didn't come about"
        pause.wait(0.05)


def rows_of(folder: Path) -> list[Any]:
    """The rows of a sink, read past both engines: what any reader of files sees."""
    found: list[Any] = []
    for path in folder.glob(
        "[!._]*.parquet"
    ):  # not what is being written, which may go while it is listed
        found += [tuple(row.values()) for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(found, key=str)


def seconds_of(rows: list[Any]) -> set[float]:
    return {(row[0] - START).total_seconds() for row in rows}


def shown_of(connection: runnel.Connection) -> dict[str, Any]:
    """The one job's row of SHOW JOBS."""
    rows = connection.execute("SHOW JOBS FULL")
    return dict(zip([item[0] for item in rows.description], rows.fetchone(), strict=True))


def compare(connection: runnel.Connection, home: Path, query: str, count: int) -> list[Any]:
    """Runs the query on both runtimes until both have given so many rows, and gives them; they must
    be the same."""
    results = []
    for runtime in ("tasklets", "spark"):
        sink(connection, f"on_{runtime}", home)
        job = start(connection, runtime, f"on_{runtime}", query)
        until(lambda runtime=runtime: len(rows_of(home / f"on_{runtime}")) >= count, job)
        job.suspend(60)
        results.append(rows_of(home / f"on_{runtime}"))
        job.cancel()
    assert results[0] == results[1]
    return results[1]


@pytest.mark.usefixtures("making_code")
def test_windows_with_late_rows_are_the_same(
    connection: runnel.Connection, tmp_path: Path, feed: Feed
) -> None:
    follow(connection, "events", feed.folder)
    feed.add((1, "a", 1), (2, "b", 2), (11, "a", None), (9, "a", 4))
    feed.add((31, "a", 5), (28, "b", 6))
    feed.add((33, "b", 7))
    # The first is too late, also for Spark, which goes by the watermark of a batch before.
    feed.add((3, "a", 100), (64, "c", 8), (100, "z", 9))
    hops = "TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '10' SECOND))"
    query = (
        f"SELECT window_end, k, COUNT(*), SUM(v) FROM {hops} WHERE v IS NULL OR v <> 2 "
        "GROUP BY window_end, window_start, k"
    )
    rows = compare(connection, tmp_path, query, 10)
    assert (START + timedelta(seconds=10), "a", 2, 5) in rows


def test_a_window_is_open_to_its_last_microsecond(
    connection: runnel.Connection, tmp_path: Path, feed: Feed
) -> None:
    follow(connection, "events", feed.folder)
    size = 1_000_001
    begin = round(START.replace(tzinfo=UTC).timestamp()) * 1_000_000
    number = begin // size + 1_000
    end = (
        number - (number - 1) % 1_000
    ) * size - begin  # a microsecond behind a millisecond, in microseconds after the start
    last = (end - 1) / 1e6
    feed.add(
        (last - 0.5, "a", 1), (last + 5, "z", 0)
    )  # the watermark is the window's last microsecond
    feed.add((last + 5, "z", 0))  # Spark goes by it from the batch after the next on
    feed.add((last, "a", 2))
    feed.add((last + 30, "z", 0))
    feed.add((last + 31, "z", 0))
    odd = "TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1.000001' SECOND))"
    query = (
        f"SELECT window_end, k, COUNT(*), SUM(v) FROM {odd} GROUP BY window_end, window_start, k"
    )
    rows = compare(connection, tmp_path, query, 2)
    assert (START + timedelta(microseconds=end), "a", 2, 3) in rows


def test_sessions_touch_as_ours_do(
    connection: runnel.Connection, tmp_path: Path, feed: Feed
) -> None:
    follow(connection, "events", feed.folder)
    feed.add((0, "a", 1), (10, "a", 2), (20.000001, "a", 3), (1, "b", 4))
    feed.add((70, "a", 5))
    feed.add((200, "z", 6))
    sessions = "TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    query = (
        f"SELECT window_end, k, COUNT(*), SUM(v) FROM {sessions} "
        "GROUP BY window_start, window_end, k"
    )
    rows = compare(connection, tmp_path, query, 4)
    assert [row[1:] for row in rows] == [("b", 1, 4), ("a", 2, 3), ("a", 1, 3), ("a", 1, 5)]


def test_a_join_of_streams_with_bounds(
    connection: runnel.Connection, tmp_path: Path, feed: Feed
) -> None:
    other = Feed(tmp_path / "other")
    follow(connection, "events", feed.folder)
    follow(connection, "answers", other.folder)
    feed.add((1, "a", 1), (2, "b", 2), (3, "c", 3))
    other.add((5, "a", 10), (13, "b", 20), (40, "d", 40))
    feed.add((30, "d", 4), (100, "z", 5), (101, "y", 6))
    other.add((100, "z", 50), (101, "x", 60))
    query = """SELECT e.ts, e.k, e.v, a.v FROM events e LEFT JOIN answers a
        ON a.k = e.k AND a.ts BETWEEN e.ts AND e.ts + INTERVAL '10' SECOND"""
    rows = compare(connection, tmp_path, query, 5)
    kept = [row[1:] for row in rows if row[0] < START + timedelta(seconds=50)]
    assert kept == [("a", 1, 10), ("b", 2, None), ("c", 3, None), ("d", 4, 40)]


def test_distinct_rows_and_look_ups(
    connection: runnel.Connection, tmp_path: Path, feed: Feed
) -> None:
    follow(connection, "events", feed.folder)
    connection.register("names", pa.table({"k": ["a", "b"], "size": [1000, 2000]}))
    feed.add((1, "a", 1), (1, "a", 1), (2, "b", 2))
    feed.add((30, "c", 3))
    feed.add((100, "z", 9))
    query = """SELECT d.ts, d.k, d.v, n.size FROM (SELECT DISTINCT ts, k, v FROM events) d
               LEFT JOIN names n ON n.k = d.k"""
    rows = compare(connection, tmp_path, query, 3)
    assert [row[1:] for row in rows] == [("a", 1, 1000), ("b", 2, 2000), ("c", 3, None)]


def test_suspended_and_restarted_nothing_is_lost_or_twice(
    session: Any, tmp_path: Path, feed: Feed
) -> None:
    query = """SELECT window_start, k, COUNT(*), SUM(v)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end, k"""
    with runnel.connect(tmp_path / "db", spark=session) as connection:
        follow(connection, "events", feed.folder)
        sink(connection, "out", tmp_path)
        feed.add((1, "a", 1), (11, "a", 2))
        feed.add((21, "a", 3))
        job = start(connection, "spark", "out", query)
        until(lambda: 0.0 in seconds_of(rows_of(tmp_path / "out")), job)
        job.suspend(60)
        assert job.status is runnel.JobStatus.SUSPENDED
        assert job.error is None
        feed.add((12, "a", 4), (22, "b", 5), (41, "a", 6))
        job.resume()
        until(lambda: 20.0 in seconds_of(rows_of(tmp_path / "out")), job)
        job.restart(60)
        feed.add((61, "a", 7))
        until(lambda: 40.0 in seconds_of(rows_of(tmp_path / "out")), job)
        until(lambda: shown_of(connection)["watermark"] == "2024-01-01 00:00:56", job)
        shown = shown_of(connection)
        assert (shown["runtime"], shown["status"], shown["guarantee"]) == (
            "spark",
            "RUNNING",
            "exactlyOnce",
        )
        assert shown["last_snapshot"] > 3
        assert shown["rows_in"] == 1
        until(lambda: job.metrics()["spark"].state_rows == 1, job)
    feed.add((100, "a", 8))
    with runnel.connect(tmp_path / "db", spark=session) as connection:
        job = connection.job("out")
        until(lambda: 60.0 in seconds_of(rows_of(tmp_path / "out")), job)
        rows = [(row[0] - START, *row[1:]) for row in rows_of(tmp_path / "out")]
        seconds = [(int(time.total_seconds()), *rest) for time, *rest in rows]
        assert sorted(seconds) == [
            (0, "a", 1, 1),
            (10, "a", 2, 6),
            (20, "a", 1, 3),
            (20, "b", 1, 5),
            (40, "a", 1, 6),
            (60, "a", 1, 7),
        ]
        job.cancel(60)


def test_what_is_said_to_a_job_before_it_is_started_again(
    session: Any, tmp_path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a directory is opened its jobs on Spark start somewhat later."""
    with runnel.connect(tmp_path / "db", spark=session) as connection:
        follow(connection, "events", feed.folder)
        sink(connection, "out", tmp_path)
        feed.add((1, "a", 1))
        job = start(connection, "spark", "out", "SELECT ts, k, v, v FROM events")
        until(lambda: len(rows_of(tmp_path / "out")) == 1, job)
    gate, start_again = Event(), NamedJob.start_again
    monkeypatch.setattr(NamedJob, "start_again", lambda job: gate.wait(60) and start_again(job))

    def executions() -> int:
        return sum(thread.name == "runnel-spark-job" for thread in enumerate_threads())

    Timer(1, gate.set).start()
    runnel.connect(tmp_path / "db", spark=session).close()
    assert eventually(lambda: executions() == 0)
    gate.clear()
    with runnel.connect(tmp_path / "db", spark=session) as connection:
        job = connection.job("out")
        assert job.status is runnel.JobStatus.NOT_RUNNING
        job.suspend(60)
        assert job.status is runnel.JobStatus.SUSPENDED
        job.resume()
        feed.add((2, "a", 1))
        gate.set()
        until(lambda: len(rows_of(tmp_path / "out")) == 2, job)
        assert eventually(lambda: executions() == 1)
        job.cancel(60)


def test_a_batch_whose_commit_spark_forgot_is_not_written_twice(
    session: Any, tmp_path: Path, feed: Feed
) -> None:
    """As when the process ends between our commit and Spark's."""
    with runnel.connect(tmp_path / "db", spark=session) as connection:
        follow(connection, "events", feed.folder)
        connection.execute(
            "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'bigint')"
        )
        feed.add((1, "a", 1), (2, "b", 2))
        feed.add((31, "c", 3))
        connection.execute("""CREATE JOB j OPTIONS ('runtime' = 'spark',
            'snapshotIntervalMillis' = '50') AS INSERT INTO m
            SELECT k, SUM(v) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
            GROUP BY k, window_start, window_end""")
        job = connection.job("j")
        until(lambda: connection.execute("SELECT COUNT(*) FROM m").fetchone() == (2,), job)
        job.suspend(60)
        number = job.id
        commits = tmp_path / "db" / "jobs" / str(number) / "runtime" / "checkpoint" / "commits"
        last = max(
            (item for item in commits.iterdir() if item.name.isdigit()),
            key=lambda item: int(item.name),
        )
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)
        job.resume()
        feed.add((64, "z", 3))
        # INSERT into a map fails for a key that is there: a batch that came twice would. Spark
        # would, over state that is gone.
        until(lambda: connection.execute("SELECT COUNT(*) FROM m").fetchone() == (3,), job)
        assert (job.error, shown_of(connection)["restarts"]) == (None, 0)
        # Without its checkpoint Spark would begin anew, with numbers of batches that count as
        # written.
        job.suspend(60)
        checkpoint = commits.parent
        checkpoint.rename(tmp_path / "elsewhere")
        with pytest.raises(
            runnel.OperationalError, match='job "j" can\'t resume: its checkpoint is gone'
        ) as caught:
            job.resume()
        assert (job.status, "DROP JOB" in (caught.value.hint or "")) == (
            runnel.JobStatus.SUSPENDED,
            True,
        )
        (tmp_path / "elsewhere").rename(checkpoint)
        job.resume()
        feed.add((94, "y", 3))
        until(lambda: connection.execute("SELECT COUNT(*) FROM m").fetchone() == (4,), job)
        job.cancel(60)


def test_windows_go_to_a_map_of_ours(
    connection: runnel.Connection, tmp_path: Path, feed: Feed
) -> None:
    follow(connection, "events", feed.folder)
    connection.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'bigint')"
    )
    feed.add((1, "a", 1), (2, "b", 2), (3, "a", 3))
    feed.add((31, "a", 5))
    feed.add((100, "z", 9))
    connection.execute("""CREATE JOB j OPTIONS ('runtime' = 'spark',
        'snapshotIntervalMillis' = '50') AS SINK INTO m
        SELECT k, SUM(v) + 100 * CAST(EXTRACT(SECOND FROM window_end) AS BIGINT)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
            GROUP BY k, window_start, window_end""")
    job = connection.job("j")
    until(
        lambda: connection.execute("SELECT this FROM m WHERE __key = 'a'").fetchone() == (4005,),
        job,
    )
    assert connection.execute("SELECT this FROM m WHERE __key = 'b'").fetchone() == (1002,)
    connection.execute("DROP JOB j")


def test_a_failed_query_suspends_the_job_with_sparks_reason(
    connection: runnel.Connection, tmp_path: Path, feed: Feed
) -> None:
    follow(connection, "events", feed.folder)
    sink(connection, "out", tmp_path)
    feed.add((1, "a", 1), (2, "b", 0))
    job = start(connection, "spark", "out", "SELECT ts, k, 10 / v, v FROM events")
    assert job.await_status(runnel.JobStatus.SUSPENDED, 60)
    assert isinstance(job.error, runnel.DataError)
    assert job.error.message == "division by zero"
    assert "DIVIDE_BY_ZERO" in (job.error.detail or "")
    assert not list((tmp_path / "out").iterdir())
    job.cancel(60)


def test_times_before_the_first_watermark_are_told(
    connection: runnel.Connection, tmp_path: Path, feed: Feed
) -> None:
    follow(connection, "events", feed.folder)
    sink(connection, "out", tmp_path)
    sixties = (datetime(1960, 1, 1) - START).total_seconds()
    feed.add((sixties, "a", 1), (sixties + 31, "a", 2))
    query = """SELECT window_end, k, COUNT(*), SUM(v)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_end, window_start, k"""
    job = start(connection, "spark", "out", query)
    feed.add((sixties + 32, "a", 3))  # it is heard of with the next batch, or when somebody asks
    assert job.await_status(runnel.JobStatus.SUSPENDED, 60)
    assert isinstance(job.error, runnel.DataError)
    assert "rows with event times before 1970 were left out" in job.error.message
    job.cancel(60)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (
            (
                "SELECT window_end, k, COUNT(*), 1 FROM TABLE(CUMULATE(TABLE events, "
                "DESCRIPTOR(ts), INTERVAL '5' SECOND, "
                "INTERVAL '10' SECOND)) GROUP BY window_end, window_start, k"
            ),
            "CUMULATE",
        ),
        (
            (
                "SELECT window_end, k, COUNT(DISTINCT v), 1 "
                "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
                "GROUP BY window_end, window_start, k"
            ),
            "an aggregate of DISTINCT values of a stream",
        ),
        (
            (
                "SELECT window_end, k, COUNT(*), 1 FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), "
                "INTERVAL '10' SECOND)) "
                "GROUP BY window_end, window_start, k EMIT EVERY INTERVAL '1' SECOND"
            ),
            "EMIT EVERY, ALLOWED LATENESS or LATE DATA INTO",
        ),
    ],
)
def test_what_structured_streaming_cant_do_is_refused(
    connection: runnel.Connection, tmp_path: Path, feed: Feed, query: str, what: str
) -> None:
    follow(connection, "events", feed.folder)
    sink(connection, "out", tmp_path)
    with pytest.raises(runnel.NotSupportedError) as caught:
        start(connection, "spark", "out", query)
    assert caught.value.message == f"the job can't run on spark: {what} is not supported there"
    lines = [
        row[0]
        for row in connection.execute(f"EXPLAIN CREATE JOB j AS INSERT INTO out {query}").fetchall()
    ]
    assert f"  runtime: tasklets, as spark can't run {what} with the same result" in lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "'path' = 'x.parquet', 'follow' = 'maybe'",
            'option "follow" of connector Spark can\'t be "maybe"',
        ),
        (
            "'query' = 'SELECT 1', 'follow' = 'true'",
            'a Spark mapping on a query can\'t be followed: leave out the option "follow"',
        ),
    ],
)
def test_what_cant_be_followed(options: str, message: str) -> None:
    with runnel.connect() as connection, pytest.raises(runnel.ProgrammingError) as caught:
        connection.execute(f"CREATE MAPPING m (a INTEGER) TYPE Spark OPTIONS ({options})")
    assert caught.value.message == message
