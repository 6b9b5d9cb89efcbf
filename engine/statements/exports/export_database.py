"""EXPORT DATABASE: a folder with schema.sql, load.sql and a file for each table, as DuckDB writes
it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.base.schemas import PUBLIC
from runnel.errors import NotSupportedError, OperationalError, ProgrammingError
from runnel.planner.explain.ddl import qualified, quoted
from runnel.planner.parse.session.exports import ExportDatabase
from runnel.planner.parse.syntax import Name
from runnel.statements.call import StatementCall
from runnel.statements.definitions import NO_COUNT
from runnel.statements.exports.database_content import (
    DatabaseContent,
    StoredTable,
    content_of,
    database_named,
)
from runnel.statements.exports.nested_statements import Run, run_nested

if TYPE_CHECKING:
    from runnel.session.session import Session

logger = logging.getLogger("runnel.catalog")

SCHEMA_FILE, LOAD_FILE = "schema.sql", "load.sql"
_FORMATS = {
    "csv": ("delimiter", "delim", "sep", "header", "quote", "escape", "null", "nullstr"),
    "parquet": ("compression", "compression_level", "row_group_size"),
    "json": (),
}
"""The options of each format, which COPY FROM has as well, except for Parquet."""


@frozen
class _Options:
    """The options of the data files.

    format: csv, parquet or json.
    written, read: the options of COPY … TO, and of COPY … FROM, in parentheses.
    """

    format: str
    written: str
    read: str


def export_database(
    session: Session, statement: ExportDatabase, call: StatementCall, run: Run
) -> int:
    """Writes the files; schema.sql is the last one, so that IMPORT DATABASE refuses a folder that
    is not complete. After an error, the files are removed."""
    session.caller.require_no_bounds("exports")
    options, folder = _options(statement), _new_folder(statement.folder)
    is_new = not folder.exists()
    made: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _one_state(session, call, run) as reading:
            content = content_of(reading, database_named(reading, statement.source))
            if options.format == "csv":
                _check_flat(content)
            loads = []
            for name, table in _files(content, options.format):
                made.append(folder / name)
                rows, file = f"{table.source}{_listed(table)}", _text(str(made[-1]))
                run_nested(reading, f"COPY {rows} TO {file} {options.written}", call, run)
                loads.append(_load(table, f"{statement.folder.text.rstrip('/')}/{name}", options))
        for name, texts in ((LOAD_FILE, loads), (SCHEMA_FILE, _statements(content))):
            made.append(folder / name)
            made[-1].write_text("".join(texts), encoding="utf-8")
    except BaseException as error:
        _remove(folder, made, is_new=is_new)
        if isinstance(error, OSError):
            raise OperationalError(
                f'"{statement.folder}" can\'t be written',
                detail=error.strerror,
                position=statement.folder.position,
            ) from error
        raise
    if content.left_out:
        logger.warning("EXPORT DATABASE left out %s", ", ".join(content.left_out))
    return NO_COUNT


def _load(table: StoredTable, path: str, options: _Options) -> str:
    """The line of load.sql for a table."""
    target = f"{qualified(table.target)}{_listed(table)}"
    return f"COPY {target} FROM {_text(path)} {options.read};\n"


def _options(statement: ExportDatabase) -> _Options:
    found = {name.text.lower(): (name, value) for name, value in statement.options}
    by_word = next((word for word in _FORMATS if word in found), "csv")
    found.pop(by_word, None)
    kind = str(found.pop("format", (None, by_word))[1]).lower()
    if kind not in _FORMATS:
        raise NotSupportedError(
            f"EXPORT DATABASE in format {kind} is not supported",
            hint=f"the formats are {', '.join(_FORMATS)}",
            position=statement.position,
        )
    for lower, (name, value) in found.items():
        if lower not in _FORMATS[kind] or not isinstance(value, str):
            listed = ", ".join(("FORMAT", *_FORMATS[kind])).upper()
            raise NotSupportedError(
                f'option "{name}" of EXPORT DATABASE is not supported',
                hint=f"the options of format {kind} are {listed}",
                position=name.position,
            )
    texts = {name: str(value) or "true" for name, (_, value) in found.items()}
    if kind == "csv":
        texts.setdefault("header", "true")
    written = {"FORMAT": kind, **texts}
    read = {"FORMAT": kind} if kind == "parquet" else dict(written)
    if kind == "csv":
        # Without it DuckDB reads the text "" as NULL.
        read["allow_quoted_nulls"] = "false"
    return _Options(kind, _listed_options(written), _listed_options(read))


def _listed_options(options: dict[str, str]) -> str:
    return f"({', '.join(f'{name} {_text(value)}' for name, value in options.items())})"


def _check_flat(content: DatabaseContent) -> None:
    """NotSupportedError for a column that COPY FROM does not read from CSV."""
    for table in content.tables:
        for column in table.target.table.columns:
            if column.type.is_nested and column.name in table.columns:
                raise NotSupportedError(
                    f'column "{column.name}" of table "{table.target.name}" is of type '
                    f"{column.type}, which CSV has not",
                    hint="write EXPORT DATABASE 'folder' (FORMAT parquet)",
                )


def _new_folder(name: Name) -> Path:
    """The folder, which is absent or empty."""
    if "://" in name.text or "\0" in name.text or not name.text:
        raise NotSupportedError(
            f'EXPORT DATABASE can\'t write "{name}"',
            hint="write the path of a folder of this machine",
            position=name.position,
        )
    folder = Path(name.text).expanduser()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ProgrammingError(
            f'"{name}" is not an empty folder',
            hint="name a new folder: EXPORT DATABASE replaces no files",
            position=name.position,
        )
    return folder


@contextmanager
def _one_state(session: Session, call: StatementCall, run: Run) -> Iterator[Session]:
    """A session that reads all tables as they are now. Through a server, in which a statement has
    no transaction, it is the session itself: each table is read as it is when its turn comes."""
    if session.prepared is None:
        yield session
        return
    run_nested(session, "BEGIN TRANSACTION READ ONLY", call, run)
    transaction = session.transaction
    assert transaction is not None
    try:
        yield transaction
    finally:
        transaction.end(is_commit=False)


def _files(content: DatabaseContent, ending: str) -> Iterator[tuple[str, StoredTable]]:
    """The tables with the names of their files. Names that differ in case, or in signs that a name
    of a file can't have, get numbers."""
    used: set[str] = set()
    for table in content.tables:
        base = re.sub(r"\W", "_", table.target.name.lower())
        numbered = (f"{base}{f'_{n}' if n else ''}" for n in range(len(content.tables)))
        name = next(each for each in numbered if each not in used)
        used.add(name)
        yield f"{name}.{ending}", table


def _listed(table: StoredTable) -> str:
    return f" ({', '.join(map(quoted, table.columns))})" if table.computes else ""


def _statements(content: DatabaseContent) -> Iterator[str]:
    """The statements of schema.sql."""
    path: tuple[str, ...] = ()
    for text in content.schemas:
        yield f"{text};\n"
    for item in content.definitions:
        if item.path != path:
            names = ", ".join(key or PUBLIC for key in item.path)
            yield f"SET search_path = {_text(names)};\n" if names else "RESET search_path;\n"
            path = item.path
        # The text of a view may end with a comment.
        yield item.text + ("\n;\n" if "--" in item.text.rpartition("\n")[2] else ";\n")
    if path:
        yield "RESET search_path;\n"
    for text in content.indexes:
        yield f"{text};\n"


def _remove(folder: Path, made: list[Path], *, is_new: bool) -> None:
    with suppress(OSError):
        for path in made:
            path.unlink(missing_ok=True)
        if is_new and folder.exists():
            folder.rmdir()


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
