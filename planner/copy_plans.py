"""Plans of COPY … TO and COPY … FROM, and what EXPLAIN shows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.connector import ReadableTable, WritableTable, WriteMode
from runnel.errors import NotSupportedError
from runnel.planner.bind.tables.files import COPY_FROM, open_file
from runnel.planner.bind.write import (
    BoundWrite,
    computed,
    defaults,
    has_generated,
    not_null_checked,
    rows_of,
    target_columns,
    writable,
)
from runnel.planner.parse.query.copies import CopyFrom, CopyTo
from runnel.planner.parse.syntax import Explain, Statement
from runnel.planner.plans import ChangePlan, CopyToPlan, KeyGetPlan, Plan, QueryPlan
from runnel.relation.nodes import Scan

if TYPE_CHECKING:
    from runnel.planner.bind.query import Binder


def plan_copy(statement: Statement, query: Plan) -> CopyToPlan:
    """The plan of COPY TO, whose query was planned."""
    assert isinstance(statement, CopyTo)
    assert isinstance(query, QueryPlan | KeyGetPlan)
    if isinstance(query, QueryPlan) and query.is_unbounded and not query.can_end:
        raise NotSupportedError(
            "COPY of a stream that never ends is not supported",
            hint="write it by a job: CREATE JOB j AS INSERT INTO m SELECT …, with a mapping m of "
            "TYPE File on a folder",
            position=statement.position,
        )
    return CopyToPlan(
        query=query,
        path=statement.target.text,
        options={name.text: value for name, value in statement.options},
        parameters=query.parameters,
    )


def bind_copy(binder: Binder, statement: CopyFrom) -> BoundWrite:
    """Binds COPY FROM: an INSERT of the rows of files that have the columns of the table."""
    table = writable(binder, statement.table, WriteMode.INSERT)
    columns = target_columns(table, statement.table, statement.columns)
    if has_generated(table):
        _check_listed(table, statement, columns)
    named = {
        "options": {name.text: value for name, value in statement.options},
        "target": (statement.table.text, tuple(table.columns[i] for i in columns)),
    }
    source = statement.source
    files = open_file(binder, COPY_FROM, ([source.text], named), source.position)
    places = {column.name.lower(): i for i, column in enumerate(files.columns) if not column.hidden}
    scanned = tuple(places[table.columns[i].name.lower()] for i in columns)
    assert isinstance(files, ReadableTable)
    rows = Scan(table=files, columns=scanned)
    write = rows_of(table, WriteMode.INSERT, columns, rows, defaults(binder, table, columns))
    return not_null_checked(binder, statement.table, computed(binder, write))


def _check_listed(table: WritableTable, statement: CopyFrom, columns: tuple[int, ...]) -> None:
    """ProgrammingError if COPY writes a computed column. It writes identities, as a dump has the
    numbers of its rows."""
    # Loaded on first use: few tables have computed columns.
    from runnel.planner.bind.tables.generated import check_written

    for index in columns:
        check_written(table, statement.table, index, statement.table.position, overrides=True)


def explained_rows(change: ChangePlan | CopyToPlan, statement: Explain) -> Plan:
    """The query of the rows that a statement changes, or writes to a file."""
    if statement.stage == "analyze":
        raise NotSupportedError(
            "EXPLAIN ANALYZE does not support COPY … TO, ON CONFLICT, RETURNING, MERGE, "
            "UPDATE … FROM and DELETE … USING",
            hint="EXPLAIN shows the query of the rows; run that with EXPLAIN ANALYZE",
            position=statement.position,
        )
    return change.rows if isinstance(change, ChangePlan) else change.query
