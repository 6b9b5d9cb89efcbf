"""COMMENT ON: the texts are stored with the object, and information_schema shows them."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import CatalogObject, Mapping, View, next_version
from runnel.connectors.duckdb.table import DuckDBTable
from runnel.connectors.duckdb.transactions import TransactionTable
from runnel.errors import ErrorCode, NotSupportedError, ProgrammingError, UndefinedColumn, suggest
from runnel.planner.parse.session.comments import CommentOn
from runnel.statements.call import StatementCall
from runnel.statements.definitions import check_own, kind_of

if TYPE_CHECKING:
    from runnel.session.session import Session

NO_COUNT = -1


def comment_on(session: Session, statement: CommentOn, call: StatementCall) -> int:
    """Stores the comment, or removes it."""
    with session.definitions:
        found = session.catalog.get(statement.name.text, statement.name.position)
        check_own(session, found)
        kind = kind_of(found)
        if (
            statement.kind != "COLUMN"
            and kind in ("table", "view")
            and kind.upper() != statement.kind
        ):
            raise ProgrammingError(
                f'"{found.name}" is a {kind}, not a {statement.kind.lower()}',
                hint=f"write COMMENT ON {kind.upper()} {found.name} IS …",
                position=statement.name.position,
            )
        key = "" if statement.column is None else _column(found, statement)
        commented = _commented(found, key, statement)
        own, table = session.tables_of(found.schema), getattr(found, "table", None)
        table = table.base if isinstance(table, TransactionTable) else table
        if own.is_file and isinstance(table, DuckDBTable):
            own.comment(table, key, statement.text)
        session.change_catalog(put=commented)
    return NO_COUNT


def _commented(found: CatalogObject, key: str, statement: CommentOn) -> CatalogObject:
    """The object with the comment. `key`: the column in lower case; "" for the object."""
    version = next_version()
    if isinstance(found, View):
        comments = _changed(found.comments, key, statement.text)
        return replace(found, comments=comments, version=version)
    if isinstance(found, Mapping) and found.definition is not None:
        comments = _changed(found.definition.comments, key, statement.text)
        definition = replace(found.definition, comments=comments)
        return replace(found, definition=definition, version=version)
    raise NotSupportedError(
        f"a {kind_of(found)} can't have comments",
        hint="tables of CREATE TABLE and views have comments: create a view over it",
        position=statement.name.position,
    )


def _changed(comments: MappingType[str, str], key: str, text: str | None) -> dict[str, str]:
    others = {name: item for name, item in comments.items() if name != key}
    return others if text is None else {**others, key: text}


def _column(found: CatalogObject, statement: CommentOn) -> str:
    """The name of the column in lower case; ProgrammingError if a table does not have it. The
    columns of a view are found when it is used."""
    assert statement.column is not None
    name = statement.column.text
    if isinstance(found, View):
        return name.lower()
    names = [column.name for column in found.table.columns if not column.hidden]
    if name.lower() not in (item.lower() for item in names):
        raise UndefinedColumn(
            f'column "{name}" of table "{found.name}" does not exist',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(name, names, f"its columns are {', '.join(names[:20])}"),
            position=statement.column.position,
        )
    return name.lower()
