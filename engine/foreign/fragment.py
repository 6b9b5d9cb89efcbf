"""Fragments: subplans that another engine runs and of which it returns only the result.

DuckDB and Spark are such engines. The planner offers an engine the largest subplan whose tables the
engine can read. The engine renders the subplan as its own SQL, which contains no text of the user,
or raises `Unrenderable`. Then the planner offers a smaller subplan, and Runnel's operators run the
rest.
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
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Call, Cast, Expression
from runnel.expressions.nodes import walk as parts_of
from runnel.processor import JobContext
from runnel.relation.nodes import Aggregate, Field, Join, JoinKind, Relation, walk
from runnel.relation.over import Window

if TYPE_CHECKING:
    from runnel.foreign.job_runtime import JobRuntime
    from runnel.processors.joins.key_filter import KeyFilter


class Unrenderable(Exception):
    """Raised for an expression or node that an engine can't run with Runnel's semantics.

    Only the planner handles it; it never reaches the user.

    `what`: a description such as "function TO_CHAR" or "type JSON".
    position: where it stands in the statement; None if unknown.
    """

    def __init__(self, what: str, position: Position | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.position = position


class FragmentSource(Source):
    """A source whose rows are the result of a subplan.

    If the subplan is sorted, the rows come in its order and in one partition. `split` fixes the
    version of the data that the fragment reads, and binds the arguments of `context.evaluation`.
    Closing a partition early cancels the work of the engine. The batches have canonical types. A
    failure is an error of Runnel with the engine's text as its detail and the position of the
    clause.
    """

    cooperative = False
    """Whether `read` of a partition never waits, as the partition reads in a thread of its own and
    wakes its reader."""

    engine: str
    """The name of the engine."""
    text: str
    """The SQL of the engine, for EXPLAIN."""
    reason = ""
    """Why the engine prefers to run the subplan, for EXPLAIN."""
    differs = ""
    """The known differences between the engine's result and the result of Runnel's operators, for
    EXPLAIN."""

    def can_narrow(self, keys: Sequence[Expression]) -> bool:
        """Whether a dynamic filter by `keys`, expressions over the source's columns, is possible.

        It leaves out rows whose keys aren't requested.
        """
        return False

    def prepare(self, context: JobContext) -> NarrowableRows:
        """Like `split`, except for the dynamic filters, which are known only while the job runs.

        Called only if `can_narrow` returns true.
        """
        raise TypeError(f"{type(self).__name__} can't be narrowed")


class NarrowableRows(ABC):
    """The rows of a fragment for one execution, before its dynamic filters are known."""

    @abstractmethod
    def partitions(
        self, filters: Sequence[tuple[tuple[Expression, ...], KeyFilter]]
    ) -> Sequence[SourcePartition]:
        """Return the partitions of the rows that pass all filters. Called once; never waits.

        The partitions may contain more rows than that.

        filters: pairs of key expressions and the requested values of these keys.
        """


@frozen(kw_only=True)
class Fragment(Relation):
    """A subplan that another engine runs.

    source: reads the rows of the result.
    relation: the subplan.
    stopped: the name of the first node or expression above that the engine can't render, for
        EXPLAIN; "" if the subplan is the whole plan.
    """

    family = "fragments"

    source: FragmentSource
    relation: Relation
    stopped: str = ""

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.relation.fields


class FragmentEngine(TableEngine):
    """An engine of one connection. Safe for threads.

    It starts nothing before one of its fragments is split.
    """

    is_apart = False
    """Whether transferring rows is slow, so that reducing their number in the engine pays."""

    @property
    def memory(self) -> int | None:
        """The memory limit of the engine in bytes; None: no limit, or Runnel doesn't control it."""
        return None

    @abstractmethod
    def can_read(self, table: Table) -> bool:
        """Whether a fragment can contain a Scan of the table."""

    def can_take(self, table: Table) -> bool:
        """Whether the rows of a small table that the engine can't read may be sent to it.

        The rows are read when the fragment is split. The subplan must also read tables of the
        engine.
        """
        return False

    @abstractmethod
    def prefers(self, relation: Relation) -> bool:
        """Whether this engine should run the subplan instead of Runnel's operators.

        The decision depends on the location and the size of the tables. Whether the engine can
        render the subplan is decided later, by `fragment`.
        """

    @abstractmethod
    def fragment(self, relation: Relation) -> FragmentSource:
        """Return the source of the rows of a bounded subplan, or raise Unrenderable."""

    @property
    def job_runtime(self) -> JobRuntime | None:
        """The runtime for whole jobs over the engine's tables; None if the engine has none."""
        return None

    def close(self) -> None:
        """End all running fragments and release all resources."""


def engine_of(table: Table) -> FragmentEngine | None:
    """The engine that runs fragments over a table where it is."""
    engine = table.engine
    assert engine is None or isinstance(engine, FragmentEngine)
    return engine


def position_of(relation: Relation, error: Error) -> Position | None:
    """Guess the position in the statement of the expression or clause at which an engine failed.

    For bad data it is the position of an expression that can fail in this way; else the position of
    the clause. None if no position is known.
    """
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
            # The inner one of nested expressions is more often the cause, and it is visited later.
            return likely[-1].position
    clauses = (node.position for node in walk(relation))
    parts = (part.position for part in _expressions(relation) if can_fail(part))
    return next((position for position in chain(clauses, parts) if position is not None), None)


def _is_of_sum(error: Error) -> bool:
    """Whether an aggregate failed and not its operand: only sums add in 128 bits."""
    report = f"{error.message} {error.detail or ''}"
    return any(
        text in report for text in ("overflow in SUM", "HUGEINT addition", "Type INT128 with value")
    )


def _aggregates(relation: Relation) -> Iterator[AggregateCall]:
    """Yield all aggregate calls of a plan, with and without OVER."""
    for node in walk(relation):
        if isinstance(node, Aggregate):
            yield from node.aggregates
        elif isinstance(node, Window):
            yield from (call.call for call in node.calls)


def _expressions(relation: Relation) -> Iterator[Expression]:
    """Yield all expressions of a plan, including nested expressions."""
    for node in walk(relation):
        for expression in node.own_expressions:
            yield from parts_of(expression)


def _is_cause(part: Expression, message: str) -> bool:
    """Whether this expression itself could fail with this message."""
    if message == "division by zero":
        return isinstance(part, Call) and part.function in ("divide", "remainder")
    if "convert" in message or "cast" in message:
        return isinstance(part, Cast)
    return isinstance(part, Call | Cast)


@frozen(kw_only=True)
class InputRows(Relation):
    """The rows that arrive on an input of the processor `on_duckdb`, as a leaf of its plan.

    number: the number of the input.
    columns: the fields of the rows.
    """

    family = "fragments"

    number: int
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns
