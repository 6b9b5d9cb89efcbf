"""BACKUP TO: a consistent copy of the connection's directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.errors import ProgrammingError
from runnel.planner.parse.session.backup import BackupTo
from runnel.relation.nodes import Field
from runnel.results.rows import Result
from runnel.sqltypes import BIGINT, DOUBLE, VARCHAR
from runnel.statements.call import StatementCall

if TYPE_CHECKING:
    from runnel.session.session import Session

_FIELDS = (
    Field("path", VARCHAR),
    Field("files", BIGINT),
    Field("bytes", BIGINT),
    Field("paused_millis", DOUBLE),
)


def back_up(session: Session, statement: BackupTo, call: StatementCall) -> Result:
    """Makes the backup; one row with its real path, its size, and the length of the pause."""
    session.caller.require_owner("backups")
    session.caller.require_no_bounds("backups")
    try:
        made = session.back_up(statement.target.text)
    except ProgrammingError as error:
        error.position = error.position or statement.target.position
        raise
    return Result(_FIELDS, [(made.path, made.files, made.bytes, round(made.paused * 1e3, 3))])
