"""The command `runnel`: its arguments, and which kind of session they request.

    runnel [DIR | file.duckdb | runnel://host:port] [-c SQL]… [-f FILE]… [OPTIONS]
    runnel serve DIR …
    runnel backup DIR TARGET

The exit status is 0, or 1 after a statement failed, 2 for wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import runnel
from runnel import Error, InterfaceError, ProgrammingError
from runnel.shell.arguments import Arguments, arguments_of, help_text
from runnel.shell.commands.call import LeaveShell, ScriptFailed
from runnel.shell.commands.files import run_file
from runnel.shell.commands.session_variables import assign
from runnel.shell.commands.table import run_command
from runnel.shell.interactive import interact
from runnel.shell.printing import Display, separator_of
from runnel.shell.script import items_of
from runnel.shell.shell import Shell
from runnel.shell.terminal import Output, discard_output

SERVERS = ("serve", "backup")
"""The commands of `runnel.serving.command`."""
INTERRUPTED = 130
MOST_ROWS = 1000
"""Maximum number of rows of a table in an interactive session, until `.maxrows`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    words = [*map(_as_utf8, sys.argv[1:])] if arguments is None else list(arguments)
    if words[:1] and words[0] in SERVERS:
        # Loaded on first use: Flight takes a while.
        from runnel.serving.command import main as serving_main

        return serving_main(words)
    try:
        options = arguments_of(words)
    except InterfaceError as error:
        return _wrong(error)
    if options.shows_help or options.shows_version:
        print(help_text() if options.shows_help else f"runnel {runnel.__version__}")
        return 0
    try:
        return _run(options)
    except BrokenPipeError:
        discard_output()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _as_utf8(argument: str) -> str:
    """An argument as UTF-8, also if Python decoded it by a locale without its characters."""
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeDecodeError:
        return argument


def _wrong(error: Error) -> int:
    """Prints an error of the arguments; returns the exit status."""
    Output(sys.stderr).line(f"runnel: {error}")
    return 2


def _run(options: Arguments) -> int:
    is_interactive = not (options.scripts or options.is_batch or options.lists_databases)
    is_interactive = is_interactive and sys.stdin.isatty() and sys.stdout.isatty()
    if options.parquet is not None and is_interactive:
        return _wrong(InterfaceError("--parquet needs a query", hint="add -c or -f"))
    _use_utf8(sys.stdout)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # at INFO it logs each call
    try:
        connection = runnel.connect(options.directory, **dict[str, Any](options.settings))
    except Error as error:
        status = _wrong(error)
        return status if isinstance(error, InterfaceError | ProgrammingError) else 1
    shell = Shell(connection, run_command, _display(options, is_interactive=is_interactive))
    shell.is_interactive, shell.parquet = is_interactive, options.parquet
    shell.stops_at_error, shell.echoes = options.stops_at_error, options.echoes
    try:
        return _session(shell, options)
    finally:
        shell.close()


def _display(options: Arguments, *, is_interactive: bool) -> Display:
    display = Display(
        mode=options.mode or "table",
        header=options.header,
        tuples_only=options.tuples_only,
        is_quiet=options.is_quiet,
        null=options.null,
        separator=separator_of(options.separator),
    )
    if is_interactive:
        display.most, display.is_paged = MOST_ROWS, True
    return display


def _session(shell: Shell, options: Arguments) -> int:
    """Runs the scripts, or the standard input, or an interactive session."""
    try:
        if options.output is not None:
            shell.write_to(options.output)
        for name, value in options.variables:
            assign(shell, name, value)
        for name, value in options.print_options:
            quoted = value.replace("'", "''")
            run_command(shell, f"\\pset {name} '{quoted}'")
        _run_scripts(shell, options.before)
        if shell.is_interactive:
            return interact(shell, options.directory)
        scripts = options.scripts or [("file", "-")] * options.is_input_read
        if options.lists_databases:
            scripts = [("sql", "\\l")]
        if options.is_transaction:
            _run_in_transaction(shell, scripts)
        else:
            _run_scripts(shell, scripts)
        if shell.conditions.is_open:
            raise InterfaceError("\\if without \\endif", hint="write \\endif after its statements")
    except LeaveShell:
        pass
    except ScriptFailed:
        return 1
    except Error as error:
        shell.report(error)
        return 1
    return 1 if shell.has_failed else 0


def _run_scripts(shell: Shell, scripts: Sequence[tuple[str, str]]) -> None:
    for kind, text in scripts:
        if kind == "sql":
            shell.run_all(items_of(io.StringIO(text)))
        elif text == "-":
            shell.run_all(items_of(_lines(sys.stdin)))
        else:
            run_file(shell, text)


def _run_in_transaction(shell: Shell, scripts: Sequence[tuple[str, str]]) -> None:
    """Commits if no statement failed. Otherwise the end of the connection undoes the changes."""
    shell.connection.execute("BEGIN")
    _run_scripts(shell, scripts)
    shell.connection.execute("ROLLBACK" if shell.has_failed else "COMMIT")


def _lines(stream: TextIO) -> Iterator[str]:
    """The lines of the standard input. OperationalError if it is not text."""
    try:
        yield from stream
    except UnicodeDecodeError as error:
        raise runnel.OperationalError(
            "the standard input is not text", detail=str(error), hint="pass SQL as UTF-8"
        ) from error


def _use_utf8(stream: Any) -> None:
    """Has a pipe use UTF-8 where the locale has an encoding with few characters."""
    encoding = str(getattr(stream, "encoding", "") or "").lower()
    if not stream.isatty() and encoding in ("ascii", "ansi_x3.4-1968", "us-ascii"):
        stream.reconfigure(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
