"""COPY FROM DATABASE: the tables of a database in another one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from runnel.errors import ProgrammingError
from runnel.planner.explain.ddl import quoted
from runnel.planner.parse.session.exports import CopyFromDatabase
from runnel.statements.call import StatementCall
from runnel.statements.definitions import NO_COUNT
from runnel.statements.exports.database_content import (
    StoredTable,
    absolute_name,
    content_of,
    database_named,
)
from runnel.statements.exports.nested_statements import Run, run_nested

if TYPE_CHECKING:
    from runnel.session.session import Session

logger = logging.getLogger("runnel.catalog")


def copy_database(
    session: Session, statement: CopyFromDatabase, call: StatementCall, run: Run
) -> int:
    """Creates the schemas, the tables and their indexes, and copies the rows. The effects of the
    statements before one that fails stay."""
    session.caller.require_no_bounds("copies of databases")
    source = database_named(session, statement.source)
    target = database_named(session, statement.target)
    if source == target:
        raise ProgrammingError(
            f'"{statement.source}" and "{statement.target}" are the same database',
            hint="ATTACH ':memory:' AS b opens an empty database",
            position=statement.target.position,
        )
    content = content_of(session, source, target)
    path, session.search_path = session.search_path, ()
    try:
        if statement.has_definitions:
            for text in (*content.schemas, *(table.ddl for table in content.tables)):
                run_nested(session, text, call, run)
        if statement.has_rows_of_tables:
            for table in content.tables:
                run_nested(session, _insert(table), call, run)
        if statement.has_definitions:
            for text in content.indexes:
                run_nested(session, text, call, run)
    finally:
        session.search_path = path
    left_out = [*content.left_out, *content.others]
    if left_out and statement.has_definitions:
        logger.warning("COPY FROM DATABASE left out %s", ", ".join(left_out))
    return NO_COUNT


def _insert(table: StoredTable) -> str:
    target = absolute_name(table.target)
    columns = ", ".join(map(quoted, table.columns))
    return f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {table.source}"
