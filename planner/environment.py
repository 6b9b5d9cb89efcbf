"""Inputs of planning besides the statement: how files are opened, and settings; and the reasons to
plan a statement again with another environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from runnel.base.frozen import frozen
from runnel.catalog import Mapping as TableMapping
from runnel.catalog import Registration, Snapshot, Table, View
from runnel.errors import NotSupportedError

if TYPE_CHECKING:
    import pyarrow as pa

    from runnel.errors import Position
    from runnel.expressions.nodes import Expression, Literal
    from runnel.expressions.python.function import PythonFunction
    from runnel.foreign.fragment import FragmentEngine
    from runnel.relation.nodes import Relation

_Plan = TypeVar("_Plan")

JobFunctions = Callable[
    [str | None, "Sequence[tuple[str, str, Position | None]]", bool], "Mapping[str, PythonFunction]"
]
"""Receives the name of an existing job (None: the job is new), the options of the statement, and
whether access to files is restricted."""

PivotValues = Mapping[tuple[str, int], "tuple[tuple[Expression, str], ...]"]

OptionsTable = Callable[[TableMapping, Mapping[str, str], bool], Table]

FileTable = Callable[[str, list[Any], dict[str, Any], bool], Table]


NULLS_SMALLEST = "nulls_first_on_asc_last_on_desc"
NULLS_LARGEST = "nulls_last_on_asc_first_on_desc"
NULL_ORDERS = ("nulls_first", "nulls_last", NULLS_SMALLEST, NULLS_LARGEST)
"""The values of the setting default_null_order, as in DuckDB."""


class PlanSettings(NamedTuple):
    """The settings that change plans.

    zone: name of the session's time zone.
    pushdown: whether other engines may run fragments of the plan.
    fragment_rows: as `Pushdown.rows`.
    memory_limit: in bytes; 0: no limit.
    is_at_rest: as `Environment.is_at_rest`.
    null_order: as `Environment.null_order`.
    """

    zone: str = "UTC"
    pushdown: bool = True
    fragment_rows: int = 0
    memory_limit: int = 0
    is_at_rest: bool = False
    null_order: str = NULLS_SMALLEST


@frozen
class Pushdown:
    """The settings of pushdown.

    duckdb: returns DuckDB's engine, which is created on first use.
    rows: the number of rows from which a subplan over tables outside DuckDB is offered to it.
    """

    duckdb: Callable[[], FragmentEngine]
    rows: int


class Variables(Protocol):
    """The variables that a statement may name: the ones of SET VARIABLE, and data frames of the
    code that executes it.

    is_used: whether one was asked for or found. Then the plan is not cached, as it has the value or
        refers to the frame.
    """

    is_used: bool

    def value(self, name: str) -> Literal | None:
        """The value of SET VARIABLE; None if the variable is not set."""

    def find(self, name: str) -> Registration | None:
        """The data frame of that name; None if there is none."""

    def hint(self, name: str) -> str | None:
        """The hint for a name that was not found, if a variable is similar."""


class Sequences(Protocol):
    """The sequences of CREATE SEQUENCE."""

    def next_numbers(self, name: str, count: int) -> pa.Array:
        """The next numbers of a sequence, which are returned once."""

    def current_numbers(self, name: str, count: int) -> pa.Array:
        """The last number that was returned, repeated."""

    def restart(self, name: str, start: int) -> None:
        """Sets the next number."""

    def increment(self, name: str) -> int:
        """The difference between two numbers."""


class ValuesNeeded(NotSupportedError):
    """The columns of a PIVOT depend on the rows: the values must be known before it is planned.

    relation: returns the distinct values in order.
    key: identifies the expression, for `Environment.pivot_values`.
    """

    def __init__(self, relation: Relation, key: tuple[str, int], position: Position | None) -> None:
        super().__init__(
            "PIVOT without IN is not supported here",
            hint="list the values: ON column IN ('a', 'b')",
            position=position,
        )
        self.relation = relation
        self.key = key


class JobNeeded(NotSupportedError):
    """An INSERT from a stream that starts a job, as in Flink: a table that it names is one of
    CREATE TABLE … WITH ('connector' = …)."""


class SeveralTypes(Exception):
    """A parameter occurs in contexts that require several types.

    index: the parameter's index, from 0.
    """

    def __init__(self, index: int) -> None:
        self.index = index


@frozen
class Environment:
    """Settings and functions of the session that planning needs.

    file_table: opens the file that a table function names.
    zone: the session's time zone.
    pushdown: None: no other engine runs any part of a plan.
    check: raises if the statement has timed out.
    in_job: whether the statement is the query of a job, which may write an unbounded stream.
    is_confined: whether access to files is restricted.
    pivot_values: for the expressions of PIVOT without IN, by the text of the statement and the
        offset in it, the values with the names of their columns.
    job_functions: returns the functions, by lower-case name, that the modules of a job register.
    variables: variables of the session, and data frames of the caller for names that the catalog
        does not have; None: none.
    arguments: the values of the statement's parameters, for a plan that is used once and may depend
        on them; None: they are not known.
    fixed_parameters: the indexes of parameters that occur in contexts of several types.
    sequences: returns the sequences of the database; None: the statement can read none.
    with_options: opens the table of a mapping with further options; the last argument is
        `is_confined`.
    is_at_rest: whether tables are read at rest that are streams with an end otherwise.
    is_live: whether the result of the query is maintained: materialized views are read with their
        changes.
    null_order: of `NULL_ORDERS`, for ORDER BY without NULLS FIRST or NULLS LAST.
    """

    file_table: FileTable
    zone: str = "UTC"
    pushdown: Pushdown | None = None
    check: Callable[[], None] = lambda: None
    in_job: bool = False
    is_confined: bool = False
    pivot_values: PivotValues = field(default_factory=dict)
    job_functions: JobFunctions = lambda name, options, is_confined: {}
    variables: Variables | None = None
    arguments: Sequence[Any] | None = None
    fixed_parameters: frozenset[int] = frozenset()
    sequences: Callable[[], Sequences] | None = None
    with_options: OptionsTable = lambda found, options, is_confined: found.table
    is_at_rest: bool = False
    is_live: bool = False
    null_order: str = NULLS_SMALLEST


def replanned(
    make: Callable[[Environment], _Plan], snapshot: Snapshot, environment: Environment
) -> _Plan:
    """The plan that `make` returns.

    A parameter that contexts require to be of several types keeps the type of its argument, and
    each context converts it. A statement that can't read streams reads the tables that are streams
    with an end (`Table.as_stream`) as tables at rest.
    """
    while True:
        try:
            return make(environment)
        except SeveralTypes as conflict:
            fixed = environment.fixed_parameters | {conflict.index}
            environment = replace(environment, fixed_parameters=fixed)
        except NotSupportedError:
            if environment.is_at_rest or not has_stream_with_end(snapshot):
                raise
            environment = replace(environment, is_at_rest=True)


def has_stream_with_end(snapshot: Snapshot) -> bool:
    """Whether a table of the catalog is a stream with an end."""
    return any(not isinstance(item, View) and item.table.as_stream is not None for item in snapshot)
