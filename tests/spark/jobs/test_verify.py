"""VERIFY JOB of jobs that Spark has run: what they have read is replayed on tasklets, whole or a
sample of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from tests.spark.jobs.test_streaming import Feed, follow, until

PATIENCE = 120


class Bench:
    """A connection to a directory with streams of Spark's, and jobs that write what it can
    change."""

    def __init__(self, session: Any, home: Path) -> None:
        self.home = home
        self.feed = Feed(home / "in put")
        self.connection = runnel.connect(home / "db", spark=session)
        follow(self.connection, "events", self.feed.folder)

    def start(self, query: str, columns: str, write: str = "INSERT INTO") -> runnel.NamedJob:
        """A job on Spark that writes to the table "out", which is made with these columns if there
        are any."""
        if columns:
            self.connection.execute(f"CREATE MAPPING out {columns}")
        options = "OPTIONS ('runtime' = 'spark', 'snapshotIntervalMillis' = '50')"
        self.connection.execute(f"CREATE JOB j {options} AS {write} out {query}")
        return self.connection.job("j")

    def written(self, count: int) -> None:
        """Waits until there are so many rows."""
        until(
            lambda: self.connection.execute("SELECT COUNT(*) FROM out").fetchone() == (count,),
            self.connection.job("j"),
        )

    def last_batch(self) -> tuple[Any, bool]:
        """What SHOW JOBS says of the last batch: its number, and whether an age is known."""
        cursor = self.connection.execute("SHOW JOBS FULL")
        names = [column[0] for column in cursor.description or ()]
        row = dict(zip(names, cursor.fetchall()[0], strict=True))
        return row["last_snapshot"], row["snapshot_age"] is not None

    def verify(self, options: str = "") -> list[tuple[Any, ...]]:
        return self.connection.execute(f"VERIFY JOB j {options}", timeout=PATIENCE).fetchall()

    def same(self, options: str = "") -> tuple[int, str]:
        """How many rows were compared, of which none differs, and the note."""
        (row,) = self.verify(options)
        assert row[0] == "equal" and row[2] is None, row
        return int(row[1]), str(row[3])


@pytest.fixture
def bench(session: Any, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(session, tmp_path)
    yield made
    made.connection.close()


def test_windows_of_a_job_that_runs_is_suspended_and_comes_back(session: Any, bench: Bench) -> None:
    for minute in range(3):
        bench.feed.add(*[(minute * 10 + i / 4, "abcdefgh"[i % 8], i) for i in range(40)])
    job = bench.start(
        """SELECT window_end, k, COUNT(*), AVG(CAST(v AS DOUBLE))
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts),
        INTERVAL '10' SECOND)) GROUP BY window_end, window_start, k""",
        "(t TIMESTAMP, k VARCHAR, n BIGINT, mean DOUBLE) TYPE DuckDB",
    )
    bench.written(8)  # of the first window: the others wait for the watermark
    count, note = bench.same()
    assert count == 8 and note.startswith("at batch ") and "watermark 2024-01-01 00:00:" in note
    assert job.status is runnel.JobStatus.RUNNING and job.record.restarts == 0
    job.suspend(PATIENCE)
    bench.feed.add((100, "z", 1))  # the job hasn't read it
    count = bench.same()[0]
    part, note = bench.same("OPTIONS ('sample' = '40 %')")
    rest = [
        bench.same(f"OPTIONS ('sample' = '{share}', 'sampleBy' = 't, k')")[0]
        for share in (0.2, 0.6, 1)
    ]
    assert "a sample of 40 %, by the hash of k" in note and 0 < part < count
    assert sorted(rest) == rest and rest[-1] == count
    bench.connection.execute("UPDATE out SET n = 99 WHERE k = 'a'")
    bench.connection.execute("DELETE FROM out WHERE k = 'b'")
    first, *others = bench.verify()
    assert first[0] == "different" and "rows are equal; at batch" not in first[3]
    assert {row[2].partition("k=")[2][:3] for row in others} == {"'a'", "'b'"}
    assert not list((bench.home / "db" / "jobs" / str(job.id) / "runtime").glob("replays")), (
        "what a replay needs goes"
    )
    with pytest.raises(runnel.ProgrammingError, match='can\'t be taken by column "mean"'):
        bench.verify("OPTIONS ('sample' = '0.5', 'sampleBy' = 'mean')")
    elsewhere = (
        bench.home / "db" / "jobs" / str(job.id) / "runtime" / "checkpoint" / "checkpoint.txt"
    )
    elsewhere.write_text(
        "hdfs://there/runnel-1"
    )  # as with a Spark Connect server on another computer
    with pytest.raises(
        runnel.NotSupportedError, match="the Spark Connect server stores its checkpoint"
    ) as refused:
        bench.verify()
    assert "hdfs://there/runnel-1" in (refused.value.detail or "")
    elsewhere.unlink()
    gone = bench.feed.folder / "002.parquet"
    gone.rename(gone.with_name(".gone"))
    with pytest.raises(runnel.OperationalError, match="its input no longer exists") as caught:
        bench.verify()
    assert caught.value.code.name == "POSITION_EXPIRED" and "002.parquet" in (
        caught.value.detail or ""
    )
    assert "is gone" in (caught.value.detail or "")
    before = bench.last_batch()
    bench.connection.close()
    bench.connection = runnel.connect(bench.home / "db", spark=session)
    assert bench.last_batch() == before and before[0] > 0, "it is known of a job that doesn't run"


def test_a_join_of_streams_and_a_table(bench: Bench) -> None:
    other = Feed(bench.home / "other")
    follow(bench.connection, "answers", other.folder)
    bench.connection.execute("CREATE MAPPING names (k VARCHAR, name VARCHAR) TYPE DuckDB")
    bench.connection.execute("INSERT INTO names VALUES ('a', 'one'), ('b', 'two')")
    for start in (0, 30):
        bench.feed.add(*[(start + i, "abc"[i % 3], i) for i in range(30)])
        other.add(*[(start + i + 2, "abc"[i % 3], 100 + i) for i in range(0, 30, 2)])
    job = bench.start(
        """SELECT e.ts, e.k, e.v, a.v, n.name FROM events e LEFT JOIN answers a
        ON a.k = e.k AND a.ts BETWEEN e.ts AND e.ts + INTERVAL '5' SECOND
            LEFT JOIN names n ON n.k = e.k""",
        "(t TIMESTAMP, k VARCHAR, v BIGINT, w BIGINT, name VARCHAR) TYPE DuckDB",
    )
    until(
        lambda: (
            job.execution is not None
            and (job.execution.watermark()[0] or 0) > 1_704_067_240_000_000
        ),
        job,
    )
    job.suspend(PATIENCE)
    count, note = bench.same()
    assert count > 30 and note.endswith("read as it is now: names")
    assert 0 < bench.same("OPTIONS ('sample' = '0.5')")[0] < count


def test_rows_of_a_registered_stream_go_to_a_map(session: Any, bench: Bench) -> None:
    """The program's own streaming DataFrame is the source of a job on Spark; a key has the last of
    its rows."""
    frame = session.readStream.schema("ts timestamp, k string, v bigint").option(
        "maxFilesPerTrigger", "1"
    )
    bench.connection.register(
        "mine", frame.parquet(str(bench.feed.folder)).selectExpr("k", "v * 2 AS v")
    )
    bench.feed.add(*[(i, f"key {i % 7}", i) for i in range(20)])
    mapping = "TYPE IMap OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'bigint')"
    job = bench.start("SELECT k, v FROM mine WHERE v > 2", mapping, "SINK INTO")
    bench.written(7)
    bench.feed.add((30, "key 9", 1000))
    bench.written(8)
    assert bench.same()[0] == 8
    job.restart(PATIENCE)
    assert bench.same("OPTIONS ('sample' = '0.99')")[1].endswith(
        "a sample of 99 %, by the hash of __key"
    )
    bench.connection.execute("SINK INTO out VALUES ('key 9', 7)")
    assert [row[0] for row in bench.verify()] == [
        "different",
        "only in the replay",
        "only in the sink",
    ]


def test_a_bounded_job_and_its_rows_in(bench: Bench) -> None:
    bench.feed.add(*[(i, "abcde"[i % 5], i) for i in range(100)])
    bench.connection.execute(f"""CREATE MAPPING ended (ts TIMESTAMP, k VARCHAR, v BIGINT)
        TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{bench.feed.folder}')""")
    query = "SELECT k, COUNT(*), SUM(v) FROM ended GROUP BY k"
    job = bench.start(query, "(k VARCHAR, n BIGINT, s BIGINT) TYPE DuckDB")
    job.join(PATIENCE)
    assert (job.rows_in, job.rows_out) == (100, 5)
    assert bench.same() == (5, "of all that the job has read")
    assert 0 < bench.same("OPTIONS ('sample' = '0.5')")[0] < 5
    bench.connection.execute("UPDATE out SET n = 0 WHERE k = 'a'")
    assert bench.verify()[0][:2] == ("different", 2)
    bench.connection.execute("DROP JOB j")
    tables = "ended a, ended b, ended c, ended d, ended e"
    slow = f"SELECT a.k, COUNT(*), 1 FROM {tables} WHERE a.v + b.v + c.v + d.v <> e.v GROUP BY a.k"
    job = bench.start(slow, "")
    job.suspend(PATIENCE)
    job.resume()
    bench.connection.execute("DROP JOB j", timeout=PATIENCE)
    assert bench.connection.execute("SELECT COUNT(*) FROM out").fetchone() == (5,)
