"""Commands that users of psql type: each does what its counterpart of the shell does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from runnel import InterfaceError, OperationalError
from runnel.shell.commands.call import CommandCall
from runnel.shell.shell import Shell
from runnel.shell.terminal import Output

_FORMATS = {"aligned": "table", "unaligned": "csv", "wrapped": "table", "csv": "csv"}
"""The formats of psql, and the modes that print them."""
_COPIED_FILE = re.compile(r"\b(TO|FROM)\s+(?!STDIN\b|STDOUT\b)([^\s'\"();]+)", re.IGNORECASE)
"""A file name of \\copy without quotes."""
_STANDARD = re.compile(r"\b(?:TO|FROM)\s+P?(?:STDIN|STDOUT)\b", re.IGNORECASE)


def echo(shell: Shell, call: CommandCall) -> None:
    """Prints its arguments."""
    shell.out.line(" ".join(call.words()))


def connection_info(shell: Shell, call: CommandCall) -> None:
    """Prints what the session is connected to."""
    shell.out.line(repr(shell.connection))


def list_databases(shell: Shell, call: CommandCall) -> None:
    """The databases: one."""
    shell.run_sql("SHOW DATABASES")


def list_schemas(shell: Shell, call: CommandCall) -> None:
    """The schemas."""
    shell.run_sql("SHOW SCHEMAS")


def copy(shell: Shell, call: CommandCall) -> None:
    """COPY between a table or a query and a file."""
    if _STANDARD.search(call.rest):
        raise InterfaceError(
            "\\copy reads and writes files",
            hint="name a file; to print rows use .mode csv and a query",
        )
    if not call.rest:
        raise call.wrong("a table or a query, TO or FROM, and a file")
    # The last match: a query may have a FROM of its own before TO.
    found = [*_COPIED_FILE.finditer(call.rest)]
    text = call.rest
    if found and "'" not in text[found[-1].start() :].split(None, 2)[1]:
        last = found[-1]
        is_outside = text.count("(", 0, last.start()) == text.count(")", 0, last.start())
        if is_outside:
            text = f"{text[: last.start(2)]}'{last[2]}'{text[last.end(2) :]}"
    shell.run_sql(f"COPY {text}")


def output(shell: Shell, call: CommandCall) -> None:
    """Writes results to a file, or to the standard output again."""
    words = call.words()
    if len(words) > 1:
        raise call.wrong("one file")
    if shell.out is not shell.standard_out:
        shell.out.stream.close()
    shell.out = shell.standard_out
    if words:
        try:
            stream = Path(words[0]).open("w", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise OperationalError(f"{words[0]} can't be written: {error.strerror}") from error
        shell.out = Output(stream)


def program(shell: Shell, call: CommandCall) -> None:
    """Runs a program of the system."""
    if not call.rest:
        raise call.wrong("a command of the system")
    shell.out.stream.flush()
    subprocess.run(call.rest, shell=True, check=False)


def options(shell: Shell, call: CommandCall) -> None:
    """Sets how results are printed: null, format, pager, tuples_only, expanded."""
    name, _, rest = call.rest.partition(" ")
    value = CommandCall(call.name, rest.strip())
    words = value.words()
    match name.lower():
        case "null":
            shell.display.null = words[0] if words else None
        case "format" if words and words[0].lower() in _FORMATS:
            shell.display.mode = _FORMATS[words[0].lower()]
        case "pager":
            shell.display.is_paged = on_or_off(value, shell.display.is_paged)
        case "tuples_only" | "t":
            shell.display.header = not on_or_off(value, not shell.display.header)
        case "expanded" | "x":
            is_on = on_or_off(value, shell.display.mode == "line")
            shell.display.mode = "line" if is_on else "table"
        case "border" | "linestyle" | "footer":
            shell.note(f"{name} is not changed: .mode selects how tables are drawn")
        case _:
            raise call.wrong("null, format (aligned, csv), pager, tuples_only or expanded")


def tuples_only(shell: Shell, call: CommandCall) -> None:
    """Prints rows without the names of their columns."""
    shell.display.header = not on_or_off(call, not shell.display.header)


def on_or_off(call: CommandCall, current: bool) -> bool:
    """The value of a command that is on or off; without an argument it changes."""
    values = {"": not current, "on": True, "off": False, "always": True}
    if call.rest.lower() not in values:
        raise call.wrong("on or off")
    return values[call.rest.lower()]
