"""Inputs of planning besides the statement: how files are opened, and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.catalog import Table

if TYPE_CHECKING:
    from runnel.foreign.fragment import FragmentEngine

FileTable = Callable[[str, list[Any], dict[str, Any], bool], Table]


@frozen
class Pushdown:
    """What the planner knows of fragments: how to get DuckDB's engine, which is made when it is
    first needed, and from how many rows on sub-plans over tables that aren't DuckDB's own are
    offered to it."""

    duckdb: Callable[[], FragmentEngine]
    rows: int


@frozen
class Environment:
    """What planning needs from outside: how to open a file named in a table function, and what
    settings change plans. Without `pushdown` no other engine runs any part of a plan. `check()`
    raises where the statement's time is over. `in_job`: the statement is what a job runs, so it may
    write what a source without an end gives. `is_confined`: files that it names are opened within
    bounds."""

    file_table: FileTable
    zone: str = "UTC"
    pushdown: Pushdown | None = None
    check: Callable[[], None] = lambda: None
    in_job: bool = False
    is_confined: bool = False
