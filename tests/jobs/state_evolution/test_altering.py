"""ALTER JOB … AS that is cut short, by a time-out or by the end of the process: the job runs all
the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import runnel
from runnel import Connection, JobStatus
from runnel.errors import ErrorCode
from runnel.named_jobs.named_job import NamedJob
from runnel.named_jobs.named_snapshots import NamedSnapshots
from tests.waiting import eventually

PATIENCE = 20


def insert(size: int) -> str:
    return (
        "INSERT INTO o SELECT window_end, COUNT(*) "
        f"FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), {size})) GROUP BY window_end"
    )


def started(folder: Path) -> Connection:
    """A connection with a job "j" that counts rows in windows of 10."""
    (folder / "in").mkdir()
    connection = runnel.connect(folder / "db")
    connection.execute(
        "CREATE MAPPING s (ts BIGINT, WATERMARK FOR ts AS ts) TYPE File "
        f"OPTIONS ('path'='{folder / 'in'}', 'format'='csv', 'header'='false', 'follow'='true')"
    )
    connection.execute("CREATE MAPPING o (until BIGINT, n BIGINT) TYPE DuckDB")
    connection.execute(f"CREATE JOB j AS {insert(10)}")
    return connection


def count(connection: Connection, folder: Path) -> list[tuple[Any, ...]]:
    """What the job gives of three rows and of one that completes their windows."""
    (folder / "in" / "a.csv").write_text("1\n11\n12\n100\n")
    connection.execute("CREATE OR REPLACE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
    while connection.job("j").rows_in < 4:
        connection.execute("CREATE OR REPLACE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
    connection.execute("CREATE OR REPLACE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
    return connection.execute("SELECT * FROM o ORDER BY 1").fetchall()


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_process_that_ends_in_the_middle(
    tmp_path: Path, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, left = NamedJob.change, tmp_path / "left"

    def changing(job: NamedJob, **changes: Any) -> None:
        if is_kept:
            change(job, **changes)
        shutil.copytree(tmp_path / "db", left)
        if not is_kept:
            change(job, **changes)

    with started(tmp_path) as connection:
        monkeypatch.setattr(NamedJob, "change", changing)
        connection.execute(f"ALTER JOB j AS {insert(20)}", timeout=PATIENCE)
        monkeypatch.undo()
        assert connection.job("j").status is JobStatus.RUNNING
    with runnel.connect(left) as connection:
        assert connection.job("j").status is JobStatus.RUNNING
        assert count(connection, tmp_path) == ([(20, 3)] if is_kept else [(10, 1), (20, 2)])
        connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    with runnel.connect(left) as connection:
        assert connection.job("j").status is JobStatus.SUSPENDED, (
            "a job that is suspended by hand stays so"
        )


@contextmanager
def held_up(job: NamedJob) -> Iterator[None]:
    """The end of the job's execution, which is an errand, has to wait meanwhile."""
    event = Event()
    job._home.executor.post(event.wait)
    try:
        yield
    finally:
        event.set()


def test_a_time_out_before_it_is_suspended(tmp_path: Path) -> None:
    with started(tmp_path) as connection:
        job = connection.job("j")
        with (
            held_up(job),
            pytest.raises(runnel.OperationalError, match=r"not suspended|took longer") as caught,
        ):
            connection.execute(f"ALTER JOB j AS {insert(20)}", timeout=0.5)
        assert caught.value.code == ErrorCode.TIMEOUT
        assert job.await_status(JobStatus.RUNNING, PATIENCE)
        assert count(connection, tmp_path) == [(10, 1), (20, 2)], "with the query that it had"
        connection.execute(f"ALTER JOB j AS {insert(20)}", timeout=PATIENCE)
        assert job.status is JobStatus.RUNNING


def test_another_one_that_suspends_it_is_not_disturbed(tmp_path: Path) -> None:
    with started(tmp_path) as connection:
        job = connection.job("j")
        with held_up(job):
            with pytest.raises(runnel.OperationalError):
                job.suspend(0)
            with pytest.raises(runnel.OperationalError, match="its status is COMPLETING"):
                connection.execute(f"ALTER JOB j AS {insert(20)}", timeout=PATIENCE)
        assert job.await_status(JobStatus.SUSPENDED, PATIENCE)


@pytest.mark.parametrize("statement", ["RESUME", f"AS {insert(20)}"])
def test_a_job_whose_snapshot_is_being_copied(
    tmp_path: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying, copied, export = Event(), Event(), NamedSnapshots.export

    def slowly(snapshots: NamedSnapshots, *args: Any) -> None:
        copying.set()
        assert copied.wait(PATIENCE)
        export(snapshots, *args)

    with started(tmp_path) as connection, ThreadPoolExecutor() as threads:
        connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
        monkeypatch.setattr(NamedSnapshots, "export", slowly)
        first = threads.submit(connection.execute, "CREATE SNAPSHOT a FOR JOB j", timeout=PATIENCE)
        assert copying.wait(PATIENCE)
        assert connection.job("j").status is JobStatus.SUSPENDED_EXPORTING_SNAPSHOT
        with pytest.raises(runnel.OperationalError) as caught:
            connection.execute(f"ALTER JOB j {statement}", timeout=0.1)
        assert caught.value.code == ErrorCode.TIMEOUT
        second = threads.submit(connection.execute, f"ALTER JOB j {statement}", timeout=PATIENCE)
        copied.set()
        first.result()
        second.result()
        assert connection.job("j").status is (
            JobStatus.RUNNING if statement == "RESUME" else JobStatus.SUSPENDED
        )


def passed(connection: Connection) -> int:
    """The watermark of the job."""
    cursor = connection.execute("SHOW JOBS FULL")
    (watermark,) = (
        row[[name for name, *_ in cursor.description or ()].index("watermark")]
        for row in cursor.fetchall()
    )
    return -1 if watermark is None else int(watermark)


@pytest.mark.parametrize("kind", ["TUMBLE", "SESSION"])
def test_the_sink_of_late_rows_is_no_step_of_the_windows(tmp_path: Path, kind: str) -> None:
    """Its state is not taken for that of the windows."""
    (tmp_path / "in").mkdir()

    def late(size: int) -> str:
        windows = f"TABLE({kind}(TABLE s, DESCRIPTOR(ts), {size}))"
        return (
            f"INSERT INTO o SELECT window_end, COUNT(*) FROM {windows} "
            "GROUP BY window_start, window_end LATE DATA INTO late"
        )

    with runnel.connect(tmp_path / "db") as connection:
        connection.execute(
            "CREATE MAPPING s (ts BIGINT, WATERMARK FOR ts AS ts) TYPE File "
            f"OPTIONS ('path'='{tmp_path / 'in'}', 'format'='csv', 'header'='false', "
            "'follow'='true')"
        )
        connection.execute("CREATE MAPPING o (until BIGINT, n BIGINT) TYPE DuckDB")
        connection.execute("CREATE MAPPING late (ts BIGINT) TYPE DuckDB")
        connection.execute(
            f"CREATE JOB j OPTIONS ('snapshotIntervalMillis'='3600000') AS {late(10)}"
        )
        for number, size in enumerate((20, 5, 10), 1):
            (tmp_path / "in" / f"{number}.csv").write_text(f"{number * 1000}\n")
            assert eventually(lambda: passed(connection) == number * 1000)  # noqa: B023
            plan = [
                line
                for (line,) in connection.execute(f"EXPLAIN ALTER JOB j AS {late(size)}").fetchall()
            ]
            assert "  write late: kept" in plan
            assert not any(line.startswith("  late rows") for line in plan)
            connection.execute(f"ALTER JOB j AS {late(size)}", timeout=PATIENCE)


def test_a_step_that_computes_something_else_may_begin_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By default that is refused. The rest of the job goes on where it was."""
    query = insert(10).replace("COUNT(*)", "SUM(ts)")
    given = "OPTIONS ('incompatibleState' = 'empty')"
    with started(tmp_path) as connection:
        job = connection.job("j")
        (tmp_path / "in" / "a.csv").write_text("1\n11\n12\n")
        assert eventually(lambda: job.rows_in == 3)
        connection.execute(
            "CREATE SNAPSHOT s FOR JOB j", timeout=PATIENCE
        )  # by now all steps have begun
        with pytest.raises(runnel.OperationalError, match="its plan has changed") as caught:
            connection.execute(f"ALTER JOB j AS {query}")
        assert (
            "'incompatibleState' = 'empty'" in (caught.value.hint or "")
            and job.status is JobStatus.RUNNING
        )
        told = "\n".join(
            row[0]
            for row in connection.execute(f"EXPLAIN ALTER JOB j {given} AS {query}").fetchall()
        )
        assert "starts empty, as it computes SUM(ts), where it was COUNT(*)" in told
        assert (
            "its first results miss the rows from before the change" in told
            and "scan s: kept" in told
        )
        connection.execute(f"ALTER JOB j {given} AS {query}", timeout=PATIENCE)
        assert "drops state: " in "\n".join(caplog.messages)
    with runnel.connect(tmp_path / "db") as connection:
        (tmp_path / "in" / "b.csv").write_text("15\n25\n100\n")
        assert eventually(lambda: connection.job("j").rows_in == 3)
        for _ in range(2):  # the windows, and their commit
            connection.execute("CREATE OR REPLACE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
        assert connection.execute("SELECT * FROM o ORDER BY 1").fetchall() == [
            (10, 1),
            (20, 15),
            (30, 25),
        ]


STREAMS = {
    "united": "SELECT ts, k FROM a UNION ALL SELECT ts, k FROM b",
    "joined": (
        "SELECT a.ts, a.k FROM TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(ts), 0)) AS a "
        "JOIN TABLE(IMPOSE_ORDER(TABLE b, DESCRIPTOR(ts), 0)) AS b ON a.k = b.k AND a.ts = b.ts"
    ),
}


@pytest.mark.parametrize(("first", "second"), [("united", "joined"), ("joined", "united")])
def test_an_order_imposed_on_a_union_and_on_a_join(tmp_path: Path, first: str, second: str) -> None:
    """The join has watermarks of its inputs too, so that the watermark of IMPOSE_ORDER has another
    number. The open window continues."""

    def insert(view: str) -> str:
        ordered = f"TABLE(IMPOSE_ORDER(TABLE {view}, DESCRIPTOR(ts), 0))"
        return (
            "INSERT INTO o SELECT window_end, COUNT(*) "
            f"FROM TABLE(TUMBLE({ordered}, DESCRIPTOR(ts), 10)) GROUP BY window_end"
        )

    def write(number: int, *rows: tuple[int, int]) -> None:
        lines = "".join(f"{ts},{k}\n" for ts, k in rows)
        for name in ("a", "b"):
            (tmp_path / name / f"{number}.csv").write_text(lines)

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with runnel.connect(tmp_path / "db") as connection:
        for name in ("a", "b"):
            connection.execute(
                f"CREATE MAPPING {name} (ts BIGINT, k BIGINT) TYPE File OPTIONS "
                f"('path'='{tmp_path / name}', 'format'='csv', 'header'='false', 'follow'='true')"
            )
        for name, text in STREAMS.items():
            connection.execute(f"CREATE VIEW {name} AS {text}")
        connection.execute("CREATE MAPPING o (until BIGINT, n BIGINT) TYPE DuckDB")
        connection.execute(f"CREATE JOB j AS {insert(first)}")
        job = connection.job("j")
        write(1, *((11, k) for k in range(16)))
        assert eventually(lambda: job.rows_in == 32)
        connection.execute("CREATE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
        plan = connection.execute(f"EXPLAIN ALTER JOB j AS {insert(second)}").fetchall()
        assert ("  impose order: kept",) in plan and ("  combine: kept",) in plan
        connection.execute(f"ALTER JOB j AS {insert(second)}", timeout=PATIENCE)
        write(2, *((12, k) for k in range(16)))
        assert eventually(lambda: job.rows_in == 32)
        # Each processor of the join advances its watermark.
        write(3, *((ts, k) for ts in (100, 200) for k in range(16)))
        assert eventually(lambda: job.rows_in == 96), job.error

        def emitted() -> list[tuple[int]]:
            connection.execute("CREATE OR REPLACE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
            return connection.execute("SELECT n FROM o WHERE until = 20").fetchall()

        # Files 1 and 2 hold back the watermark until the next check finds them unchanged.
        assert eventually(lambda: emitted() == [(16 + 32,)])
        assert job.status is JobStatus.RUNNING
