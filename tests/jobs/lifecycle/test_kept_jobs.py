"""What is kept of jobs on the disk: who may read it, and what is seen of what can't be read."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import JobStatus
from runnel.named_jobs.record.record import JobRecord
from runnel.processor import Guarantee
from runnel.runtime.snapshots import SnapshotReport
from runnel.snapshots.store import SnapshotSize
from runnel.testing import ManualClock
from tests.jobs.named import Bench
from tests.waiting import eventually

MAP = "(__key BIGINT, this BIGINT) TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
PATIENCE = 20


def shown(connection: runnel.Connection) -> list[dict[str, Any]]:
    cursor = connection.execute("SHOW JOBS FULL")
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A directory with a job that was left while it ran."""
    directory = tmp_path / "kept"
    with runnel.connect(directory) as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        connection.execute(
            'CREATE JOB "the job" AS SINK INTO m SELECT v % 10, v '
            "FROM TABLE(GENERATE_STREAM(10)) AS t(v)"
        )
    return directory


def record_of(directory: Path) -> Path:
    (found,) = (directory / "jobs").glob("*/job.json")
    return found


@pytest.mark.parametrize(
    "change",
    [lambda text: text[: len(text) // 2], lambda text: text.replace('"format": 2', '"format": 99')],
)
def test_a_record_that_cannot_be_read_is_shown(
    kept: Path, change: Any, caplog: pytest.LogCaptureFixture
) -> None:
    record = record_of(kept)
    text = record.read_text()
    record.write_text(change(text))
    with runnel.connect(kept) as connection:
        (row,) = shown(connection)
        assert (row["id"], row["name"], row["status"]) == (
            int(record.parent.name),
            "the job",
            "UNREADABLE",
        )
        assert str(record) in row["last_error"] and row["uptime"] is None
        for statement in ("VERIFY JOB", "ALTER JOB", "DROP JOB IF EXISTS"):
            with pytest.raises(runnel.OperationalError, match="its record can't be read") as caught:
                connection.execute(
                    f'{statement} "the job"' + (" RESTART" if statement == "ALTER JOB" else "")
                )
            assert str(record) in (caught.value.detail or "") and caught.value.hint
    assert "can't be read" in "\n".join(caplog.messages)
    record.write_text(text)
    with runnel.connect(kept) as connection:
        assert [row["status"] for row in shown(connection)] == ["RUNNING"]


def test_a_record_that_says_nothing_at_all(kept: Path) -> None:
    record_of(kept).write_bytes(b"\xff\x00")
    with runnel.connect(kept) as connection:
        (row,) = shown(connection)
        assert row["name"] is None and row["status"] == "UNREADABLE"


def test_only_the_owner_can_read_what_may_hold_secrets(kept: Path) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    record = record_of(kept)
    assert [mode(path) for path in (kept, record.parent.parent, record.parent)] == [0o700] * 3
    assert [mode(path) for path in (record, kept / "catalog.json", kept / "lock")] == [0o600] * 3


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared").chmod(0o755)
    runnel.connect(tmp_path / "shared").close()
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755


def test_the_uptime_of_a_job_that_has_ended_stands_still() -> None:
    bench = Bench()
    job = bench.create()
    bench.clock.advance(3_000_000_000)
    assert job.uptime == 3
    job.cancel(PATIENCE)
    assert job.uptime == 3
    bench.clock.advance(5_000_000_000)
    assert job.uptime == 3 and isinstance(bench.clock, ManualClock)
    bench.close()


def test_a_record_names_its_first_snapshot_at_once_and_later_ones_each_second(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    job = bench.create(guarantee=Guarantee.EXACTLY_ONCE, snapshot_interval=3_600_000)
    saved: list[int | None] = []
    save = bench.named.records.save

    def noted(record: JobRecord) -> None:
        saved.append(record.snapshot)
        save(record)

    def report(snapshot_id: int) -> None:
        job._lifecycle._reported(
            SnapshotReport(
                snapshot_id, is_terminal=False, started=0, duration=1, size=SnapshotSize(1, 1, 1)
            )
        )

    bench.named.records.save = noted  # type: ignore[method-assign]
    try:
        report(1)
        assert eventually(lambda: saved == [1])
        for snapshot_id in range(2, 12):
            report(snapshot_id)
        bench.clock.advance(999_999_999)
        bench.named.executor.post((reached := threading.Event()).set)
        assert reached.wait(PATIENCE)
        assert saved == [1]
        bench.clock.advance(1)
        assert eventually(lambda: saved == [1, 11])
        report(12)
        job._record.keep(last_error=None)  # whatever else is saved names the newest, too
        assert saved == [1, 11, 12]
    finally:
        bench.close()


def test_hints_can_be_run_whatever_a_job_is_called(tmp_path: Path) -> None:
    with runnel.connect() as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        connection.register_stream("s", pa.schema([("k", pa.int64())]))
        connection.execute('CREATE JOB "odd ""name" AS SINK INTO m SELECT k, k FROM s')
        with pytest.raises(runnel.OperationalError) as caught:
            connection.execute("ALTER JOB \"odd \"\"name\" OPTIONS ('metricsEnabled'='true')")
        assert caught.value.hint == 'ALTER JOB "odd ""name" SUSPEND first'
        connection.execute(caught.value.hint.removesuffix(" first"))
        assert connection.job('odd "name').status is JobStatus.SUSPENDED
