"""One execution of a named job that another engine runs as a whole. It has the interface of
`run.Run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runnel.errors import Error, ErrorCode, NotSupportedError, OperationalError
from runnel.foreign.job_runtime import (
    Commit,
    JobStart,
    RuntimeExecution,
    RuntimePlan,
    RuntimeProgress,
)
from runnel.named_jobs.record.record import RecordedError
from runnel.runtime.light_job import JobOptions
from runnel.runtime.metrics import ProcessorMetrics, VertexMetrics
from runnel.runtime.snapshots import SnapshotReport
from runnel.snapshots.store import SnapshotSize
from runnel.storage.durable_files import replace_file

if TYPE_CHECKING:
    from runnel.named_jobs.record.record import JobRecord
    from runnel.named_jobs.run import PreparedJob
    from runnel.runtime.light_job import Jobs

PLAN = "plan.txt"
"""The file with the engine's text of the query to which the state in the folder belongs."""


class ForeignExecution:
    """The observable properties of the execution, with the interface of `Job`: the whole execution
    in the other engine is one vertex."""

    def __init__(self, jobs: Jobs, name: str, options: JobOptions) -> None:
        self.name = name
        self.options = options
        self.running: RuntimeExecution | None = None
        self._clock = jobs.clock
        self._started = jobs.clock.monotonic()
        self._ended: int | None = None

    def ended(self) -> None:
        """It has ended now."""
        self._ended = self._clock.monotonic()

    def progress(self) -> RuntimeProgress:
        return RuntimeProgress() if self.running is None else self.running.progress()

    @property
    def error(self) -> Error | None:
        return None if self.running is None else self.running.error

    @property
    def uptime(self) -> float:
        """Seconds from the start to now, or to the end."""
        return (
            (self._clock.monotonic() if self._ended is None else self._ended) - self._started
        ) / 1e9

    @property
    def rows_in(self) -> int:
        return self.progress().rows_in

    @property
    def late_rows(self) -> int:
        return self.progress().late_rows

    @property
    def malformed_records(self) -> int:
        """Always 0: a record that cannot be parsed is an error in the other engine."""
        return 0

    @property
    def rows_per_second(self) -> float:
        found = self.progress()
        return (
            found.rows_in / max(self.uptime, 1e-9)
            if found.rows_per_second is None
            else found.rows_per_second
        )

    def watermark(self) -> tuple[int | None, str | None]:
        """The watermark in µs of event time; the holder is unknown."""
        return self.progress().watermark, None

    def latency(self, *shares: float) -> list[int | None]:
        """All None: the other engine does not measure it."""
        return [None] * len(shares)

    def metrics(self) -> dict[str, VertexMetrics]:
        """One vertex, named like the runtime."""
        found = self.progress()
        item = ProcessorMetrics(
            index=0,
            rows_in=found.rows_in,
            rows_out=found.rows_out,
            batches_in=found.batches,
            batches_out=found.batches,
            bytes_out=0,
            calls=found.batches,
            busy=0,
            queued=0,
            state="runs" if self._ended is None else "done",
            watermark=found.watermark,
            held_by=None,
            late_rows=found.late_rows,
            state_rows=found.state_rows,
            state_bytes=found.state_bytes,
        )
        return {self.name: VertexMetrics(self.name, (item,), 0)}

    def cancel(self) -> None:
        """Ends it soon, from any thread; does not wait."""
        if self.running is not None:
            self.running.cancel()


class ForeignRun:
    """One execution, from `start` until `on_end` is called. Each committed batch is reported like a
    snapshot. Thread-safe."""

    restored_from = None
    terminal = None
    is_stopped = False
    where = "from its checkpoint"
    last_batch: Sequence[int] = ()
    """The number of the last batch, and when it was committed (µs since the epoch)."""

    def __init__(
        self,
        jobs: Jobs,
        record: JobRecord,
        prepared: PreparedJob,
        folder: Path,
        on_report: Callable[[SnapshotReport], None],
    ) -> None:
        assert prepared.foreign is not None
        self._plan: RuntimePlan = prepared.foreign
        self.end_to_end = prepared.guarantee
        self._clock = jobs.clock
        self._record = record
        self._evaluation = prepared.evaluation
        self._folder = folder
        self._on_report = on_report
        options = JobOptions(name=record.name, kind="job", event_time=prepared.event_time)
        self.job = ForeignExecution(jobs, record.runtime, options)

    def start(
        self, on_end: Callable[[], object], report: Callable[[str], object] | None = None
    ) -> None:
        """Starts it; raises the reason if it cannot start. `on_end` is called once, on the thread
        that ends it. Another engine reports no messages, so `report` is unused."""
        is_new = self._check_plan()

        def ended() -> None:
            self.job.ended()
            on_end()

        start = JobStart(
            owner=str(self._record.id),
            name=self._record.name,
            folder=self._folder,
            evaluation=self._evaluation,
            interval=self._record.options.snapshot_interval,
            on_commit=self._committed,
            on_end=ended,
        )
        try:
            self.job.running = self._plan.start(start)
        except BaseException:
            if is_new:  # no state was written yet that belongs to the text
                with suppress(OSError):
                    (self._folder / PLAN).unlink()
            raise

    @property
    def is_cut(self) -> bool:
        """Whether it was stopped before the end of its input."""
        return self.job.running is not None and self.job.running.is_stopped

    @property
    def rows_out(self) -> int:
        return self.job.progress().rows_out

    @property
    def stop_failure(self) -> RecordedError | None:
        """The error that occurred when it was stopped."""
        return None if self.job.error is None or self.is_cut else RecordedError.of(self.job.error)

    def stop(self) -> None:
        """Ends it after a committed batch; it may end by itself before."""
        assert self.job.running is not None
        self.job.running.stop()

    def between_batches(self) -> AbstractContextManager[None]:
        """Waits for the current batch; inside, no batch is written."""
        assert self.job.running is not None
        return self.job.running.between_batches()

    def take_snapshot(self, timeout: float | None) -> int:
        raise no_snapshots(self._record.name, self._record.runtime)

    def _committed(self, commit: Commit) -> None:
        self.last_batch = (commit.number, self._clock.wall())
        size = SnapshotSize(commit.state_rows, commit.state_bytes, commit.state_bytes)
        started = self._clock.monotonic() - commit.duration
        self._on_report(SnapshotReport(commit.number, False, started, commit.duration, size))

    def _check_plan(self) -> bool:
        """Compares the query with the query to which the state in the folder belongs.
        OperationalError if the engine would run them differently. True if there is no state yet:
        then the text is stored."""
        stored = self._folder / PLAN
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._record.last_batch and not stored.exists():
                raise OperationalError(
                    f'job "{self._record.name}" can\'t resume: its checkpoint is missing',
                    code=ErrorCode.GENERIC,
                    detail=(
                        f"it committed batch {self._record.last_batch[0]}, "
                        f"and {stored} doesn't exist"
                    ),
                    hint="put the folder back from a backup and resume the job; "
                    "to begin from nothing, DROP JOB and CREATE JOB again",
                )
            if not stored.exists() or all(PLAN in item.name for item in self._folder.iterdir()):
                replace_file(stored, self._plan.state_text)
                return True
            before = stored.read_text("utf-8")
        except OSError as error:
            raise OperationalError(
                f'the state of job "{self._record.name}" can\'t be read or written',
                detail=f"{stored}: {error.strerror or error}",
                hint="make room on the disk",
            ) from error
        if not self._plan.has_state_of(before):
            raise OperationalError(
                f'job "{self._record.name}" can\'t resume from its checkpoint: '
                "its query has changed",
                code=ErrorCode.GENERIC,
                detail=f"it was {before} and is {self._plan.state_text}",
                hint=(
                    "was a view or a mapping that it uses changed? Change it back, "
                    "or DROP JOB and create it again"
                ),
            )
        return False


def no_snapshots(name: str, runtime: str) -> NotSupportedError:
    """The error for a snapshot of a job that another engine runs."""
    return NotSupportedError(
        f'job "{name}" has no snapshots: it runs on {runtime}, which keeps its state in a '
        "checkpoint of its own",
        hint="ALTER JOB … SUSPEND stops it after a committed batch; RESUME continues from there",
    )
