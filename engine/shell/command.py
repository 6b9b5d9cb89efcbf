"""The command `runnel`: its arguments, and which kind of session they request.

    runnel [DIR | file.duckdb | runnel://host:port] [-c SQL]… [-f FILE]… [OPTIONS]
    runnel serve DIR …
    runnel backup DIR TARGET

The exit status is 0, or 1 after a statement failed, 2 for wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import runnel
from runnel import Error, InterfaceError, ProgrammingError
from runnel.shell.commands.call import LeaveShell, ScriptFailed
from runnel.shell.commands.files import run_file
from runnel.shell.commands.table import run_command
from runnel.shell.interactive import interact
from runnel.shell.printing import Display
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
    options = _parser().parse_args(words)
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


def _run(options: argparse.Namespace) -> int:
    is_interactive = not options.scripts and sys.stdin.isatty() and sys.stdout.isatty()
    if options.parquet is not None and is_interactive:
        print("runnel: --parquet needs a query: add -c or -f", file=sys.stderr)
        return 2
    _use_utf8(sys.stdout)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # at INFO it logs each call
    try:
        connection = runnel.connect(options.directory, **_settings(options.set))
    except Error as error:
        Output(sys.stderr).line(f"runnel: {error}")
        return 2 if isinstance(error, InterfaceError | ProgrammingError) else 1
    display = Display(mode=options.mode or "table")
    if is_interactive:
        display.most, display.is_paged = MOST_ROWS, True
    shell = Shell(connection, run_command, display)
    shell.is_interactive, shell.parquet = is_interactive, options.parquet
    try:
        return _session(shell, options)
    finally:
        shell.connection.close()


def _session(shell: Shell, options: argparse.Namespace) -> int:
    """Runs the scripts, or the standard input, or an interactive session."""
    if shell.is_interactive:
        return interact(shell, options.directory)
    try:
        for kind, text in options.scripts or [("file", "-")]:
            if kind == "sql":
                shell.run_all(items_of(io.StringIO(text)))
            elif text == "-":
                shell.run_all(items_of(_lines(sys.stdin)))
            else:
                run_file(shell, text)
    except LeaveShell:
        pass
    except ScriptFailed:
        return 1
    except Error as error:
        shell.report(error)
        return 1
    return 1 if shell.has_failed else 0


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


def _settings(items: Sequence[str]) -> dict[str, Any]:
    return dict(item.split("=", 1) for item in items)


class _AddScript(argparse.Action):
    """Adds a statement or a file to the scripts, which run in the order of the arguments."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        kind = "file" if option_string in ("-f", "--file") else "sql"
        namespace.scripts = [*namespace.scripts, (kind, values)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runnel",
        description="Runs SQL: from -c and -f, from a pipe, or typed at a prompt.",
        epilog=(
            "also: runnel serve DIR (keep a directory's jobs running, and serve it to other "
            "processes) and runnel backup DIR TARGET; each has --help"
        ),
    )
    parser.add_argument(
        "directory",
        nargs="?",
        metavar="DIR",
        help="directory, DuckDB file or address runnel://host:port; default: in memory",
    )
    parser.add_argument("-V", "--version", action="version", version=f"runnel {runnel.__version__}")
    parser.set_defaults(scripts=[], mode=None)
    parser.add_argument(
        "-c",
        "--command",
        action=_AddScript,
        metavar="SQL",
        dest="scripts",
        help="run statements and exit; may be repeated, also mixed with -f",
    )
    parser.add_argument(
        "-f",
        "--file",
        action=_AddScript,
        metavar="FILE",
        dest="scripts",
        help="run the statements of a file and exit; -: of the standard input",
    )
    modes = parser.add_mutually_exclusive_group()
    for mode in ("csv", "tsv", "json", "jsonlines", "markdown", "line"):
        modes.add_argument(
            f"--{mode}", action="store_const", const=mode, dest="mode", help=f"print rows as {mode}"
        )
    modes.add_argument("--parquet", metavar="OUT", help="write the rows of the query to this file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting, written as in SET; of a server: token or root_certificate",
    )
    return parser


def _setting(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"a setting is written NAME=VALUE, not {text}")
    return text


if __name__ == "__main__":
    sys.exit(main())
