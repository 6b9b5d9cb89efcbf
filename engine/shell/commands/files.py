"""The commands that read and write files, and the one that opens another connection."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import runnel
from runnel import Cursor, InterfaceError, NotSupportedError, OperationalError
from runnel.errors import as_written, suggest
from runnel.shell.atomic_file import replaced_file
from runnel.shell.commands.call import CommandCall
from runnel.shell.parquet import write_parquet
from runnel.shell.printing import Display, counted, texts
from runnel.shell.script import items_of
from runnel.shell.shell import Shell
from runnel.shell.terminal import Output

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonlines",
    ".ndjson": "jsonlines",
    ".md": "markdown",
}
"""The modes of printing by the extension of a file."""
DEEPEST = 20
"""Number of scripts that may call each other by `.read`."""


def import_file(shell: Shell, call: CommandCall) -> None:
    """Loads a file into a table, which is created unless it exists."""
    words = call.words()
    options = {"--csv": "", "--tsv": r", delim = '\t'"}
    read = [word for word in words if word in options]
    words = [word for word in words if word not in options]
    if len(words) != 2 or words[0][:1] == "-":
        raise call.wrong("a file and a table")
    path, name = words[0].replace("'", "''"), as_written(words[1])
    source = f"read_csv('{path}'{options[read[-1]]})" if read else f"'{path}'"
    known = shell.connection.execute(
        "SELECT count(*) FROM information_schema.tables WHERE lower(table_name) = lower(?)",
        (words[1],),
    ).fetchone()
    if known == (0,):
        shell.run_sql(f"CREATE TABLE {name} AS SELECT * FROM {source}")
    else:
        shell.run_sql(f"INSERT INTO {name} SELECT * FROM {source}")


def export(shell: Shell, call: CommandCall) -> None:
    """Writes the rows of a table or a query to a file, in the format of its extension."""
    spans = call.spans()
    if len(spans) < 2:
        raise call.wrong("a file, and a table or a query")
    path, end = spans[0]
    extension = Path(path).suffix.lower()
    if extension != ".parquet" and extension not in FORMATS:
        raise InterfaceError(
            f'the format of the file "{path}" is unknown',
            hint=suggest(
                extension, (*FORMATS, ".parquet"), f"use {', '.join(FORMATS)} or .parquet"
            ),
        )
    sql = call.rest[end:].strip()
    if len(spans) == 2:
        sql = f"SELECT * FROM {sql if sql[0] in _QUOTES or '.' in sql else as_written(sql)}"
    with shell.connection.execute(sql) as cursor:
        if cursor.description is None:
            raise InterfaceError(
                ".export needs a query", hint="the statement ran, and it returned no rows"
            )
        if extension == ".parquet":
            count = write_parquet(cursor, path)
        else:
            count = _write_text(cursor, path, FORMATS[extension])
    shell.note(f"{counted(count)} written to {path}")


_QUOTES = "\"'"


def _write_text(cursor: Cursor, path: str, mode: str) -> int:
    if cursor.is_unbounded:
        raise NotSupportedError(
            f'"{path}" cannot be written from a query that never ends', hint="add a LIMIT"
        )
    display = replace(Display(), mode=mode)
    try:
        with (
            replaced_file(Path(path)) as temporary,
            temporary.open("w", encoding="utf-8", newline="", errors="replace") as stream,
        ):
            output = Output(stream)
            for text in texts(cursor, display, output):
                output.line(text)
    except OSError as error:
        raise OperationalError(
            f'the file "{path}" cannot be written', detail=error.strerror
        ) from error
    return cursor.rowcount


def read_script(shell: Shell, call: CommandCall) -> None:
    """Runs the statements and commands of a file."""
    words = call.words()
    if len(words) != 1:
        raise call.wrong("a file")
    if shell.depth >= DEEPEST:
        raise InterfaceError(
            f'more than {DEEPEST} scripts call each other by .read: "{words[0]}"',
            hint="a script that reads itself has no end",
        )
    shell.depth += 1
    try:
        run_file(shell, words[0])
    finally:
        shell.depth -= 1


def run_file(shell: Shell, path: str) -> None:
    """Runs a script. OperationalError if the file cannot be read."""
    try:
        with Path(path).open(encoding="utf-8-sig") as stream:
            shell.run_all(items_of(stream), path)
    except UnicodeDecodeError as error:
        raise OperationalError(
            f'the script "{path}" is not UTF-8', detail=str(error), hint="store it as UTF-8"
        ) from error
    except OSError as error:
        raise OperationalError(
            f'the script "{path}" cannot be read', detail=error.strerror
        ) from error


def open_other(shell: Shell, call: CommandCall) -> None:
    """Opens a directory, a server or memory, and closes the earlier connection."""
    words = call.words()
    if len(words) > 1:
        raise call.wrong("one directory or address")
    shell.replace_connection(runnel.connect(words[0] if words else None))


def edit(shell: Shell, call: CommandCall) -> None:
    """Opens the last statement in an editor, and runs the text after it."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with TemporaryDirectory() as folder:
        path = Path(folder, "statement.sql")
        path.write_text(f"{shell.last_sql or ''};\n", "utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(path)], check=False)
        except OSError as error:
            raise OperationalError(
                f'the editor "{editor}" cannot be started',
                detail=error.strerror,
                hint="set the environment variable EDITOR",
            ) from error
        if done.returncode != 0:
            raise OperationalError(f'the editor "{editor}" ended with status {done.returncode}')
        run_file(shell, str(path))
