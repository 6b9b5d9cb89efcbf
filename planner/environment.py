"""Inputs of planning besides the statement: how files are opened, and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from runnel.base.frozen import frozen
from runnel.catalog import Table

if TYPE_CHECKING:
    from runnel.errors import Position
    from runnel.expressions.python.function import PythonFunction
    from runnel.foreign.fragment import FragmentEngine

JobFunctions = Callable[
    [str | None, "Sequence[tuple[str, str, Position | None]]", bool], "Mapping[str, PythonFunction]"
]
"""Receives the name of an existing job (None: the job is new), the options of the statement, and
whether access to files is restricted."""

FileTable = Callable[[str, list[Any], dict[str, Any], bool], Table]


class PlanSettings(NamedTuple):
    """The settings that change plans.

    zone: name of the session's time zone.
    pushdown: whether other engines may run fragments of the plan.
    fragment_rows: as `Pushdown.rows`.
    memory_limit: in bytes; 0: no limit.
    """

    zone: str = "UTC"
    pushdown: bool = True
    fragment_rows: int = 0
    memory_limit: int = 0


@frozen
class Pushdown:
    """The settings of pushdown.

    duckdb: returns DuckDB's engine, which is created on first use.
    rows: the number of rows from which a subplan over tables outside DuckDB is offered to it.
    """

    duckdb: Callable[[], FragmentEngine]
    rows: int


@frozen
class Environment:
    """Settings and functions of the session that planning needs.

    file_table: opens the file that a table function names.
    zone: the session's time zone.
    pushdown: None: no other engine runs any part of a plan.
    check: raises if the statement has timed out.
    in_job: whether the statement is the query of a job, which may write an unbounded stream.
    is_confined: whether access to files is restricted.
    job_functions: returns the functions, by lower-case name, that the modules of a job register.
    """

    file_table: FileTable
    zone: str = "UTC"
    pushdown: Pushdown | None = None
    check: Callable[[], None] = lambda: None
    in_job: bool = False
    is_confined: bool = False
    job_functions: JobFunctions = lambda name, options, is_confined: {}
