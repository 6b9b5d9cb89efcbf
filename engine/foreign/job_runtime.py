"""Job runtimes: engines that run the query of a named job as a whole, from its sources to its sink.

Runnel manages the job: its name, record, status, failures and restarts. The engine plans the query
once for each execution, or reports the part that it can't run with Runnel's semantics. It runs the
query in batches that it commits one by one. The progress is stored in the job's folder, so that a
later execution resumes there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.connector import ReadableTable, WritableTable, WriteMode
from runnel.errors import Error, NotSupportedError
from runnel.expressions.context import EvaluationContext
from runnel.processor import Guarantee
from runnel.relation.nodes import Relation

TASKLETS = "tasklets"
"""The name of Runnel's own runtime."""


@frozen(kw_only=True)
class JobWrite:
    """The write of a job.

    relation: the query.
    table: the table that gets the rows.
    mode: how the rows are written.
    columns: the indexes of the table's columns that the fields of `relation` are written to.
    """

    relation: Relation
    table: WritableTable
    mode: WriteMode
    columns: tuple[int, ...]


@frozen
class Commit:
    """A committed batch.

    number: its number, from 1 on.
    duration: in nanoseconds.
    state_rows: the number of rows in the state after the batch.
    state_bytes: the size of the state in bytes after the batch.
    """

    number: int
    duration: int
    state_rows: int = 0
    state_bytes: int = 0


@frozen
class RuntimeProgress:
    """The progress of an execution.

    rows_in: rows that were read.
    rows_out: rows that were written.
    late_rows: rows that arrived late.
    batches: the number of batches of this execution.
    rows_per_second: the rate of input; None if unknown.
    watermark: in microseconds of event time; None if there is none.
    state_rows: the number of rows in the state.
    state_bytes: the size of the state in bytes.
    """

    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    batches: int = 0
    rows_per_second: float | None = None
    watermark: int | None = None
    state_rows: int = 0
    state_bytes: int = 0


@frozen(kw_only=True)
class ReadInput:
    """The input that a job over streams has read up to a written batch.

    batch: the number of the batch, from 1 on.
    watermark: the watermark with which the batch emitted results, in microseconds of event time;
        None if there was none.
    inputs: tables that return this input again, by the index of the stream's Scan among all Scans
        of the job's relation.
    close: is called after the inputs were read.
    """

    batch: int
    watermark: int | None
    inputs: Mapping[int, ReadableTable]
    close: Callable[[], object]


@frozen(kw_only=True)
class JobStart:
    """The parameters of an execution.

    owner: the id of the job, the same in all executions.
    name: the name of the job.
    folder: the folder of the job for the runtime, the same in all executions.
    evaluation: the arguments and settings of the statement.
    interval: milliseconds between the batches of a stream.
    on_commit: is called for each committed batch, on any thread.
    on_end: is called once, at the end of the execution, on any thread.
    """

    owner: str
    name: str
    folder: Path
    evaluation: EvaluationContext
    interval: int
    on_commit: Callable[[Commit], object]
    on_end: Callable[[], object]


class RuntimeExecution(ABC):
    """One execution of a job. Safe for threads."""

    error: Error | None = None
    """After a failure, its error."""
    is_stopped = False
    """Whether the execution ended because of `stop` or `cancel`, before the end of its input."""

    @abstractmethod
    def progress(self) -> RuntimeProgress:
        """Return the current progress, or the final one after the end."""

    @abstractmethod
    def stop(self) -> None:
        """Request the end after a committed batch, without waiting for it."""

    @abstractmethod
    def cancel(self) -> None:
        """Request the end as soon as possible, without waiting. Committed batches remain."""

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """Wait for the running batch; no batch is written while the context is open."""
        yield


class RuntimePlan(ABC):
    """The plan of a job's query in the runtime. Creating it starts nothing."""

    text: str
    """The engine's own text of the plan, for EXPLAIN."""
    state_text: str
    """The identity of the state: plans with equal texts can resume from each other's state."""
    notes: Sequence[str] = ()
    """Notes on the sources and the sink, for EXPLAIN."""
    guarantee: Guarantee
    """The guarantee from the sources to the sink."""

    def has_state_of(self, state_text: str) -> bool:
        """Whether the plan can use the state that was stored with that `state_text`."""
        return state_text == self.state_text

    @abstractmethod
    def start(self, start: JobStart) -> RuntimeExecution:
        """Start an execution where the last execution of the owner stopped.

        If that is impossible, raises the error, and nothing runs.
        """

    @abstractmethod
    def settle(self, owner: str, folder: Path) -> None:
        """Finish the writes of an owner that no longer runs.

        Commits the staged rows of its last batch, and removes its other data in the sink.
        """

    def read_input(self, folder: Path) -> ReadInput | None:
        """Return the input that the executions in a folder have read up to their last batch.

        None if there was no batch yet. For a query over streams; no batch may be written meanwhile.
        """
        raise NotSupportedError(
            "the read position of the job is unknown", hint="run VERIFY after the job has ended"
        )


class JobRuntimeConnector(ABC):
    """A connector that an option of a job may name, to have the job run there."""

    @property
    @abstractmethod
    def job_runtime(self) -> JobRuntime:
        """Runs jobs of the connection."""


class JobRuntime(ABC):
    """Runs jobs of one connection. Safe for threads; starts nothing before a job is started."""

    name: str

    @abstractmethod
    def plan(self, write: JobWrite) -> RuntimePlan:
        """Return the plan of a job.

        Raises `fragment.Unrenderable` for the first expression or node that the runtime can't run
        with Runnel's semantics.
        """

    @abstractmethod
    def has(self, table: Table) -> bool:
        """Whether the rows of the table are stored in the engine of the runtime."""

    def takes(self, table: Table) -> bool:
        """Whether the runtime can read a table of another connector instead of that connector.

        It does so only if a job requests this runtime.
        """
        return False

    @abstractmethod
    def rows(self, tables: Sequence[Table]) -> int | None:
        """Return about how many rows the tables have together; None if that is unknown.

        May start the engine.
        """
