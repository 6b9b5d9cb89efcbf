"""A session of the shell: runs statements and commands on a connection, and prints the outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TextIO

from runnel import Connection, Cursor, Error, NotSupportedError, OperationalError
from runnel.shell.commands.call import ScriptFailed
from runnel.shell.conditions import CONDITIONALS, ConditionalBlocks, truth
from runnel.shell.copied_rows import copy_stream, read_rows, write_rows
from runnel.shell.parquet import write_parquet
from runnel.shell.printing import Display, print_result
from runnel.shell.progress_bar import ProgressBar
from runnel.shell.script import ScriptItem, word_command
from runnel.shell.terminal import BOLD, PLAIN, RED, Output
from runnel.shell.variables import interpolated

_WITHOUT_VARIABLES = ("\\!", "\\copy")
_WITH_SQL = ("\\watch",)


class Shell:
    """A session.

    connection: the connection; `.open` replaces it.
    run_command: runs the line of a command.
    display: how results are printed.
    out, err: where results, and errors and notes, are written.
    standard_out: the standard output, to which `\\o` returns.
    echoes: each statement is printed before it runs.
    is_interactive: a person types the statements.
    is_output_once: the next statement is the last one whose results go to the file.
    variables: the values of variables by their names.
    conditions: the open `\\if` blocks.
    parquet: path of a Parquet file for the rows of the one query; None: they are printed.
    stops_at_error: a script ends at its first error.
    has_failed: a statement failed.
    last_sql: the last statement.
    changes: number of statements and connections so far; completion reads the catalog again after
        a change.
    depth: number of scripts that run inside each other.
    """

    def __init__(
        self, connection: Connection, run_command: Callable[[Shell, str], None], display: Display
    ) -> None:
        self.connection = connection
        self.run_command = run_command
        self.display = display
        self.out = self.standard_out = Output(sys.stdout, self._remove_bar)
        self.err = Output(sys.stderr, self._remove_bar)
        self.echoes = False
        self.is_interactive = False
        self.is_output_once = False
        self.variables: dict[str, str] = {}
        self.conditions = ConditionalBlocks()
        self.parquet: str | None = None
        self.stops_at_error = True
        self.has_failed = False
        self.last_sql: str | None = None
        self.changes = 0
        self.depth = 0
        self._queries = 0
        self._bar: ProgressBar | None = None

    def run_all(self, items: Iterable[ScriptItem], name: str | None = None) -> None:
        """Runs the items in order. After an error it raises ScriptFailed, unless `.bail off`.

        name: name of the script, for errors.
        """
        for item in items:
            try:
                self.run(item)
            except Error as error:
                self.report(error, f"{name}:{item.line}: " if name else "")
                self.has_failed = True
                if self.stops_at_error:
                    raise ScriptFailed from None

    def run(self, item: ScriptItem) -> None:
        """Runs one statement or command. Raises errors of PEP 249, and LeaveShell for `.quit`."""
        word = word_command(item.text) or ""
        command = item.text.split(None, 1)[0] if item.is_command else word
        if command in CONDITIONALS:
            self._run_condition(command, item.text.partition(command)[2])
        elif self.conditions.is_skipping:
            return
        elif item.rows is not None and item.is_command:
            self.run_copy(item.text.lstrip().removeprefix("\\"), item.rows)
        elif item.is_command:
            text = item.text
            if command[:1] == "\\" and command not in _WITHOUT_VARIABLES:
                is_sql = command in _WITH_SQL
                text = interpolated(text, self.variables, are_words=not is_sql)
            self.run_command(self, text)
        elif command:
            self.run_command(self, command)
        else:
            self._run_statement(item)

    def _run_statement(self, item: ScriptItem) -> None:
        self.last_sql = sql = interpolated(item.text, self.variables)
        if self.echoes:
            self.out.line(f"{sql};")
        try:
            if item.ending:
                self.run_command(self, f"\\{item.ending}")
            elif not self.run_copy(sql, item.rows):
                self.run_sql(sql)
        finally:
            if self.is_output_once:
                self.write_to(None)

    def run_copy(self, sql: str, rows: Sequence[str] | None) -> bool:
        """Runs a COPY between a table and the standard streams; False for any other statement.

        rows: the lines that follow in the script; None: FROM STDIN reads the standard input.
        """
        copy = copy_stream(sql)
        if copy is None:
            return False
        if not copy.is_reading:
            write_rows(self.connection, copy, self.out)
            return True
        if rows is None and self.is_interactive:
            raise NotSupportedError(
                "COPY … FROM STDIN is not supported at the prompt",
                hint="write COPY … FROM 'file', or run a script: .read dump.sql",
            )
        count = read_rows(self.connection, copy, sys.stdin if rows is None else rows)
        self.changes += 1
        self.note(f"COPY {count}")
        return True

    def _run_condition(self, command: str, expression: str) -> None:
        """Runs `\\if`, `\\elif`, `\\else` or `\\endif`. A wrong condition counts as false."""
        value = False
        try:
            if self.conditions.needs_value(command):
                value = truth(interpolated(expression, self.variables))
        finally:
            self.conditions.run(command, value)

    def run_sql(self, sql: str) -> None:
        """Runs a statement and prints its outcome. Ctrl-C ends the statement and is passed on."""
        began = monotonic()
        cursor = self.connection.cursor()
        try:
            if self.is_interactive and self.err.has_colour:
                self._bar = ProgressBar(cursor, self.err.stream)
            cursor.execute(sql)
            self._print(cursor)
        finally:
            self._remove_bar()
            self.changes += 1
            with suppress(Error):
                cursor.close()
        if self.display.has_timer:
            self.note(f"Time: {monotonic() - began:.3f} s")

    def _print(self, cursor: Cursor) -> None:
        if self.parquet is not None and cursor.description is not None:
            self._queries += 1
            write_parquet(cursor, self.parquet, is_first=self._queries == 1)
            return
        if self.is_interactive and cursor.is_unbounded and self.display.is_for_people:
            self.note("a stream: rows are printed as they arrive; Ctrl-C ends it")
        print_result(cursor, self.display, self.out)

    def note(self, text: str) -> None:
        """Prints a line that is no result: to the standard error, so that it damages no pipe."""
        (self.out if self.out.is_terminal and self.display.is_for_people else self.err).line(text)

    def report(self, error: Error, origin: str = "") -> None:
        """Prints an error with its excerpt of the statement."""
        text = str(error)
        head, newline, rest = text.partition("\n")
        label = f"{origin}{type(error).__name__}:"
        if self.err.has_colour:
            label, head = f"{RED}{BOLD}{label}{PLAIN}", f"{BOLD}{head}{PLAIN}"
        self.err.line(f"{label} {head}{newline}{rest}")

    def write_to(self, path: str | None) -> None:
        """Writes results to a file, or to the standard output again, and closes the file before."""
        if self.out is not self.standard_out:
            self.out.stream.close()
        self.out, self.is_output_once = self.standard_out, False
        if path is not None:
            self.out = Output(_opened(path))

    def run_into(self, sql: str, path: str) -> None:
        """Runs a statement and writes its rows to a file; later results go where they went."""
        earlier, self.out = self.out, Output(_opened(path))
        try:
            self.run_sql(sql)
        finally:
            self.out.stream.close()
            self.out = earlier

    def close(self) -> None:
        """Closes the connection, and the file of results. A note names the named jobs that run."""
        with suppress(Error):  # of a server, whose jobs continue
            running = [job.name for job in self.connection.jobs() if job.kind == "job"]
            if running and not self.display.is_quiet:
                self._note_jobs(running)
        self.connection.close()
        self.write_to(None)

    def _note_jobs(self, names: list[str]) -> None:
        subject = f"job {names[0]} stops" if len(names) == 1 else f"jobs {', '.join(names)} stop"
        self.err.line(
            f"{subject} with this session. Jobs of a directory continue when it is opened: "
            "runnel serve DIR. SET 'table.dml-sync' = 'true' has an INSERT wait for its job"
        )

    def replace_connection(self, connection: Connection) -> None:
        """Closes the connection and continues with another one."""
        earlier, self.connection = self.connection, connection
        self.changes += 1
        with suppress(Error):
            earlier.close()

    def _remove_bar(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()


def _opened(path: str) -> TextIO:
    """A file that is written. OperationalError if it cannot be opened."""
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise OperationalError(f"{path} can't be written: {error.strerror}") from error
