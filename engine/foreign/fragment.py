"""Fragments: relational sub-plans that an engine other than our own operators runs, giving back
only its result.

DuckDB and Spark are such engines. The planner offers an engine the largest sub-plan whose tables it
can read; the engine renders it as its own SQL, in which nothing of the user's text stands, or says
what it can't render: then a smaller sub-plan is offered, and our operators do the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.catalog import Table, TableEngine
from runnel.connector import Source, SourcePartition
from runnel.errors import DataError, Error, ErrorCode, Position
from runnel.expressions.evaluate import can_fail
from runnel.expressions.nodes import Aggregate as AggregateCall
from runnel.expressions.nodes import Call, Cast, Expression
from runnel.expressions.nodes import walk as parts_of
from runnel.processor import JobContext
from runnel.relation.nodes import Aggregate, Field, Join, JoinKind, Relation, walk
from runnel.relation.over import Window

if TYPE_CHECKING:
    from runnel.foreign.job_runtime import JobRuntime
    from runnel.processors.joins.key_filter import WantedKeys


class Unrenderable(Exception):
    """What an engine can't run with our meaning: `what` names it ("function TO_CHAR", "type JSON").
    It stays in the planner."""

    def __init__(self, what: str, position: Position | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.position = position


class FragmentSource(Source):
    """A source whose rows are the result of a sub-plan, in its order if it is sorted and then in
    one partition. `text` is the engine's SQL, for EXPLAIN. `split` fixes what the fragment sees and
    binds the arguments of `context.evaluation`; closing a partition early cancels the engine's
    work. Reading gives batches in canonical types; a failure is one of our errors with the engine's
    text as detail, and the position of the clause."""

    cooperative = False
    """True where a partition's `read` never waits, as it has its own thread and wakes its
    reader."""

    engine: str
    text: str
    reason = ""
    """Why the engine prefers to run it, for EXPLAIN."""
    differs = ""
    """What of it isn't quite the same there as on our operators, for EXPLAIN."""

    def can_narrow(self, keys: Sequence[Expression]) -> bool:
        """Whether it can leave out rows whose `keys`, expressions over its columns, aren't among
        those that are wanted."""
        return False

    def prepare(self, context: JobContext) -> NarrowableRows:
        """As `split`, but for what isn't known before the job runs: which rows are wanted. Only
        where `can_narrow`."""
        raise TypeError(f"{type(self).__name__} can't be narrowed")


class NarrowableRows(ABC):
    """The rows of a fragment for one execution, before it is known which of them are wanted."""

    @abstractmethod
    def partitions(
        self, wanted: Sequence[tuple[tuple[Expression, ...], WantedKeys]]
    ) -> Sequence[SourcePartition]:
        """The partitions of the rows whose keys are among those wanted, for each pair of keys and
        what is wanted of them. More rows may come. Called once; never waits."""


@frozen(kw_only=True)
class Fragment(Relation):
    """A sub-plan, `relation`, that another engine runs, reading back the rows of `source`.
    `stopped` says why the plan above isn't part of it: what the engine can't render, or nothing
    at the end of the plan."""

    source: FragmentSource
    relation: Relation
    stopped: str = ""

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.relation.fields


class FragmentEngine(TableEngine):
    """An engine of one connection. Safe for threads; starts nothing before a fragment of it is
    split."""

    is_apart = False
    """Whether rows take long to come over, so that it is worth it to make few of them there."""

    @property
    def memory(self) -> int | None:
        """How many bytes it may hold of what it works on; None: that isn't ours to say, or there is
        no limit."""
        return None

    @abstractmethod
    def can_read(self, table: Table) -> bool:
        """Whether a Scan of the table can be part of a fragment."""

    def can_take(self, table: Table) -> bool:
        """Whether the rows of a small table that it can't read may travel to it, for a sub-plan
        with tables of its own; they are read when the fragment is split."""
        return False

    @abstractmethod
    def prefers(self, relation: Relation) -> bool:
        """Whether running the sub-plan here wins over our own operators, judged by where its tables
        are and by their size. It can be rendered, or that is found out by `fragment`."""

    @abstractmethod
    def fragment(self, relation: Relation) -> FragmentSource:
        """The source of a bounded sub-plan's rows; raises Unrenderable."""

    @property
    def job_runtime(self) -> JobRuntime | None:
        """What runs whole jobs over the engine's tables; None where nothing does."""
        return None

    def close(self) -> None:
        """Ends what runs and gives everything back."""


def engine_of(table: Table) -> FragmentEngine | None:
    """The engine that runs fragments over a table where it is."""
    engine = table.engine
    assert engine is None or isinstance(engine, FragmentEngine)
    return engine


def place_of(relation: Relation, error: Error) -> Position | None:
    """Where a statement says what an engine failed at while it ran a sub-plan, as far as that can
    be told: an expression that can fail in this way, for bad data; else the clause."""
    if error.code in (ErrorCode.CANCELLED, ErrorCode.TIMEOUT):
        return None
    if error.message.startswith("more than one row"):
        subqueries = [
            node
            for node in walk(relation)
            if isinstance(node, Join) and node.kind is JoinKind.SINGLE
        ]
        return subqueries[-1].position if subqueries else None
    if isinstance(error, DataError) and _is_of_sum(error):
        sums = [
            call.position
            for call in _aggregates(relation)
            if call.function in ("sum", "avg") and call.position is not None
        ]
        if sums:
            return sums[-1]
    if isinstance(error, DataError):
        failing = [
            part for part in _expressions(relation) if part.position is not None and can_fail(part)
        ]
        likely = [part for part in failing if _is_cause(part, error.message)] or failing
        if likely:
            # Of two in one another the inner one is the cause more often, and it is visited later.
            return likely[-1].position
    clauses = (node.position for node in walk(relation))
    parts = (part.position for part in _expressions(relation) if can_fail(part))
    return next((position for position in chain(clauses, parts) if position is not None), None)


def _is_of_sum(error: Error) -> bool:
    """Whether an aggregate failed, not its operand: no expression adds in 128 bits, but sums do."""
    told = f"{error.message} {error.detail or ''}"
    return any(
        text in told for text in ("overflow in SUM", "HUGEINT addition", "Type INT128 with value")
    )


def _aggregates(relation: Relation) -> Iterator[AggregateCall]:
    """All calls of aggregates in a plan, with OVER and without."""
    for node in walk(relation):
        if isinstance(node, Aggregate):
            yield from node.aggregates
        elif isinstance(node, Window):
            yield from (call.call for call in node.calls)


def _expressions(relation: Relation) -> Iterator[Expression]:
    """All expressions of a plan, those within others too."""
    for node in walk(relation):
        for expression in node.own_expressions:
            yield from parts_of(expression)


def _is_cause(part: Expression, message: str) -> bool:
    """Whether a failure with this message is what the expression itself would cause."""
    if message == "division by zero":
        return isinstance(part, Call) and part.function in ("divide", "remainder")
    if "convert" in message or "cast" in message:
        return isinstance(part, Cast)
    return isinstance(part, Call | Cast)


@frozen(kw_only=True)
class InputRows(Relation):
    """Inside a plan that the processor `on_duckdb` runs: the rows that come in on its input
    `number`."""

    number: int
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns
