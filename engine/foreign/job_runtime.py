"""Job runtimes: engines that run the query of a named job as a whole, from its sources to its sink.

The job stays ours: its name, record, status, failures and restarts. The engine plans the query once
for each execution, or says what of it it can't run with our meaning; and it runs it, in batches
that it commits one by one. How far it has come is kept in the job's folder, so that a later
execution goes on there.
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
"""The name of our own runtime."""


@frozen(kw_only=True)
class JobWrite:
    """What a job does: the rows of `relation` go to `columns` of `table`."""

    relation: Relation
    table: WritableTable
    mode: WriteMode
    columns: tuple[int, ...]


@frozen
class Commit:
    """A batch is committed: its number, from 1 on; how many ns it took; and what is kept of the
    input after it."""

    number: int
    duration: int
    state_rows: int = 0
    state_bytes: int = 0


@frozen
class RuntimeProgress:
    """How far an execution is. `watermark` is in µs of event time; `batches` are those of this
    execution."""

    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    batches: int = 0
    rows_per_second: float | None = None
    watermark: int | None = None
    state_rows: int = 0
    state_bytes: int = 0


@frozen(kw_only=True)
class ReadSoFar:
    """What a job over streams has read by a batch that is written, of number `batch`, from 1 on.
    `inputs` give it again, by the place of the stream's Scan among all of the job's relation.
    `watermark` (µs of event time) is that by which the batch gave results. `close` is called when
    the inputs are read."""

    batch: int
    watermark: int | None
    inputs: Mapping[int, ReadableTable]
    close: Callable[[], object]


@frozen(kw_only=True)
class JobStart:
    """What an execution is told. `owner` is the job's id and `place` its folder for the runtime,
    both the same in all executions; `interval`: milliseconds between batches of a stream.
    `on_commit` hears of each batch and `on_end` once of the end, each on any thread."""

    owner: str
    name: str
    place: Path
    evaluation: EvaluationContext
    interval: int
    on_commit: Callable[[Commit], object]
    on_end: Callable[[], object]


class RuntimeExecution(ABC):
    """One execution. Safe for threads."""

    error: Error | None = None
    """Why it failed, once it has ended."""
    is_stopped = False
    """Whether it ended because it was told to, and would have had more to do."""

    @abstractmethod
    def progress(self) -> RuntimeProgress:
        """How far it is, or was at its end."""

    @abstractmethod
    def stop(self) -> None:
        """Has it end behind a committed batch; waits for nothing."""

    @abstractmethod
    def cancel(self) -> None:
        """Has it end as soon as may be; waits for nothing. What is committed stays."""

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """Waits for the batch that runs; inside, none is written."""
        yield


class RuntimePlan(ABC):
    """A job's query as the runtime would run it. Making one starts nothing."""

    text: str
    """The engine's own text, for EXPLAIN."""
    state_text: str
    """What is equal for two plans that may go on from each other's state."""
    notes: Sequence[str] = ()
    """What holds at the ends, for EXPLAIN."""
    guarantee: Guarantee
    """What it can promise from end to end."""

    def has_state_of(self, state_text: str) -> bool:
        """Whether the plan may use the state that was stored with that `state_text`."""
        return state_text == self.state_text

    @abstractmethod
    def start(self, start: JobStart) -> RuntimeExecution:
        """Begins, where the last execution of the owner stopped. Raises what keeps it from that,
        and then nothing runs."""

    @abstractmethod
    def settle(self, owner: str, place: Path) -> None:
        """The owner runs no more: commits what its last batch has staged, and removes what else it
        has in the sink."""

    def read_so_far(self, place: Path) -> ReadSoFar | None:
        """What the executions in that folder have read by their last batch, of a query over
        streams; None where there was no batch yet. While none is written."""
        raise NotSupportedError(
            "how far the job has read is not known", hint="VERIFY it when it has ended"
        )


class JobRuntimeConnector(ABC):
    """A connector that an option of a job may name, to have the job run there."""

    @property
    @abstractmethod
    def job_runtime(self) -> JobRuntime:
        """Runs jobs of the connection."""


class JobRuntime(ABC):
    """Runs jobs of one connection. Safe for threads; starts nothing before a job does."""

    name: str

    @abstractmethod
    def plan(self, write: JobWrite) -> RuntimePlan:
        """The plan; raises `fragment.Unrenderable` with the first part that it can't run with our
        meaning."""

    @abstractmethod
    def has(self, table: Table) -> bool:
        """Whether the table's rows are where the runtime works."""

    def takes(self, table: Table) -> bool:
        """Whether it may read a table of another connector in that one's place, where a job asks
        for this runtime."""
        return False

    @abstractmethod
    def rows(self, tables: Sequence[Table]) -> int | None:
        """About how many rows these tables have together; None where nobody knows. May start the
        engine to find out."""
