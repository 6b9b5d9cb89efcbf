"""IMPORT DATABASE: runs the statements of a folder that EXPORT DATABASE wrote, here or in
DuckDB."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import TokenType

from runnel.errors import Error, NotSupportedError, OperationalError
from runnel.planner.parse.session.exports import ImportDatabase
from runnel.planner.parse.syntax import Name
from runnel.planner.parse.tokens import has_tokens, statement_ends, tokenize
from runnel.statements.call import StatementCall
from runnel.statements.definitions import NO_COUNT
from runnel.statements.exports.export_database import LOAD_FILE, SCHEMA_FILE
from runnel.statements.exports.nested_statements import Run, run_nested

if TYPE_CHECKING:
    from runnel.session.session import Session

_SUPPORTED = ("ALTER", "COMMENT", "COPY", "CREATE", "INSERT", "RESET", "SET", "USE")
"""The words with which statements of a folder begin."""


def import_database(
    session: Session, statement: ImportDatabase, call: StatementCall, run: Run
) -> int:
    """Runs schema.sql, then load.sql. The effects of the statements before one that fails stay. The
    search path of the session is as before."""
    session.caller.require_no_bounds("imports")
    folder = Path(statement.folder.text).expanduser()
    texts = {name: _read(folder / name, statement.folder) for name in (SCHEMA_FILE, LOAD_FILE)}
    path = session.search_path
    try:
        for name, text in texts.items():
            for sql in _statements(text):
                try:
                    run_nested(session, _checked(sql, folder), call, run)
                except Error as error:
                    where = f"the statement is one of {folder / name}"
                    error.detail = f"{error.detail}; {where}" if error.detail else where
                    raise
    finally:
        session.search_path = path
    return NO_COUNT


def _read(file: Path, name: Name) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise OperationalError(
            f'"{file}" can\'t be read',
            detail=getattr(error, "strerror", None) or "it is no text in UTF-8",
            hint="name a folder that EXPORT DATABASE wrote",
            position=name.position,
        ) from error


def _statements(text: str) -> list[str]:
    ends = statement_ends(text) or []
    begins = (0, *(end + 1 for end in ends))
    parts = [text[begin:end] for begin, end in zip(begins, (*ends, len(text)), strict=True)]
    return [part.strip() for part in parts if has_tokens(part)]


def _checked(sql: str, folder: Path) -> str:
    """The statement; COPY reads the file of that name in the folder, which may have been moved
    since it was written."""
    tokens = tokenize(sql)
    word = tokens[0].text.upper()
    if word not in _SUPPORTED:
        raise NotSupportedError(
            f"IMPORT DATABASE does not run {word}",
            hint=f"it runs {', '.join(_SUPPORTED)}; run the file in the shell: .read FILE",
        )
    for before, token in pairwise(tokens):
        is_path = before.text.upper() == "FROM" and token.token_type is TokenType.STRING
        if word == "COPY" and is_path:
            found = folder / Path(token.text.replace("\\", "/")).name
            if found.exists():
                text = str(found).replace("'", "''")
                return f"{sql[: token.start]}'{text}'{sql[token.end + 1 :]}"
    return sql
