"""Commands that users of psql type: each does what its counterpart of the shell does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from runnel import InterfaceError, OperationalError
from runnel.shell.commands.call import CommandCall
from runnel.shell.commands.session_variables import assign
from runnel.shell.printing import separator_of
from runnel.shell.shell import Shell

_FORMATS = {
    "aligned": "table",
    "unaligned": "list",
    "wrapped": "table",
    "csv": "csv",
    "html": "html",
}
"""The formats of psql, and the modes that print them."""
_COPIED_FILE = re.compile(r"\b(TO|FROM)\s+(?!STDIN\b|STDOUT\b)([^\s'\"();]+)", re.IGNORECASE)
"""A file name of \\copy without quotes."""
_STANDARD = re.compile(r"\b(?:TO|FROM)\s+P?(?:STDIN|STDOUT)\b", re.IGNORECASE)


def echo(shell: Shell, call: CommandCall) -> None:
    """Prints its arguments to the standard output."""
    shell.standard_out.line(" ".join(call.words()))


def echo_to_results(shell: Shell, call: CommandCall) -> None:
    """Prints its arguments where results are written."""
    shell.out.line(" ".join(call.words()))


def warn(shell: Shell, call: CommandCall) -> None:
    """Prints its arguments to the standard error."""
    shell.err.line(" ".join(call.words()))


def print_statement(shell: Shell, call: CommandCall) -> None:
    """Prints the last statement."""
    shell.out.line(f"{shell.last_sql};" if shell.last_sql else "there is no statement yet")


def write_statement(shell: Shell, call: CommandCall) -> None:
    """Writes the last statement to a file."""
    words = call.words()
    if len(words) != 1:
        raise call.wrong("one file")
    if shell.last_sql is None:
        raise call.wrong("a statement before it")
    try:
        Path(words[0]).write_text(f"{shell.last_sql};\n", encoding="utf-8")
    except OSError as error:
        raise OperationalError(f"{words[0]} can't be written: {error.strerror}") from error


def run_again(shell: Shell, call: CommandCall) -> None:
    """Runs the last statement, and writes its rows to a file if one is named."""
    words = call.words()
    if len(words) > 1 or (words and words[0][:1] == "|"):
        raise call.wrong("one file")
    if shell.last_sql is None:
        raise call.wrong("a statement before it")
    if words:
        shell.run_into(shell.last_sql, words[0])
    else:
        shell.run_sql(shell.last_sql)


def encoding(shell: Shell, call: CommandCall) -> None:
    """Prints the encoding of texts, which is always UTF-8."""
    written = call.rest.strip("'\"").upper().replace("-", "").replace("_", "")
    if written not in ("", "UTF8", "UNICODE"):
        raise InterfaceError(
            f"the encoding {call.rest} is not supported",
            hint="texts are UTF-8; read_csv has the option encoding for files",
        )
    shell.out.line("UTF8")


def prompt(shell: Shell, call: CommandCall) -> None:
    """Asks for the value of a variable."""
    words = call.words()
    if len(words) not in (1, 2):
        raise call.wrong("a text and the name of a variable")
    if len(words) == 2:
        shell.standard_out.write(words[0])
    assign(shell, words[-1], sys.stdin.readline().removesuffix("\n"))


def list_sequences(shell: Shell, call: CommandCall) -> None:
    """The sequences."""
    shell.run_sql("SELECT sequence_name AS name, sql FROM duckdb_sequences() ORDER BY name")


def list_indexes(shell: Shell, call: CommandCall) -> None:
    """The keys of tables and the indexes of maps."""
    shell.run_sql("SELECT tablename, indexname, indexdef FROM pg_indexes ORDER BY ALL")


def describe_statement(shell: Shell, call: CommandCall) -> None:
    """Prints the columns of the last statement, which does not run."""
    if shell.last_sql is None:
        raise call.wrong("a statement before it")
    shell.run_sql(f"DESCRIBE {shell.last_sql}")


def change_folder(shell: Shell, call: CommandCall) -> None:
    """Changes the folder to which relative paths refer."""
    words = call.words()
    if len(words) > 1:
        raise call.wrong("one folder")
    try:
        os.chdir(words[0] if words else Path.home())
    except OSError as error:
        raise OperationalError(f'"{words[0]}" is not opened: {error.strerror}') from error


def clear(shell: Shell, call: CommandCall) -> None:
    """Clears the screen."""
    if shell.out.is_terminal:
        shell.out.write("\x1b[2J\x1b[H")


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
    """COPY between a table or a query and a file, or the standard input and output."""
    if _STANDARD.search(call.rest) and shell.run_copy(f"COPY {call.rest.rstrip(';')}", None):
        return
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
    if len(words) > 1 or (words and words[0][:1] in "|-"):
        raise call.wrong("one file")
    is_file = words and words[0] != "stdout"
    shell.write_to(words[0] if is_file else None)


def output_once(shell: Shell, call: CommandCall) -> None:
    """Writes the results of the next statement to a file."""
    if not call.rest:
        raise call.wrong("one file")
    output(shell, call)
    shell.is_output_once = True


def program(shell: Shell, call: CommandCall) -> None:
    """Runs a program of the system."""
    if not call.rest:
        raise call.wrong("a command of the system")
    shell.out.stream.flush()
    subprocess.run(call.rest, shell=True, check=False)


def options(shell: Shell, call: CommandCall) -> None:
    """Sets how results are printed: null, format, pager, tuples_only, expanded, fieldsep."""
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
            shell.display.tuples_only = on_or_off(value, shell.display.tuples_only)
        case "expanded" | "x":
            is_on = on_or_off(value, shell.display.mode == "line")
            shell.display.mode = "line" if is_on else "table"
        case "fieldsep" | "csv_fieldsep" if words:
            shell.display.separator = separator_of(words[0])
        case "border" | "linestyle" | "footer":
            shell.note(f"{name} is not changed: .mode selects how tables are drawn")
        case _:
            raise call.wrong(
                "null, format (aligned, unaligned, csv, html), pager, tuples_only, expanded or "
                "fieldsep"
            )


def tuples_only(shell: Shell, call: CommandCall) -> None:
    """Prints rows alone, without names of columns and the number of rows."""
    shell.display.tuples_only = on_or_off(call, shell.display.tuples_only)


def unaligned(shell: Shell, call: CommandCall) -> None:
    """Prints rows as a list, or as a table again."""
    _toggle(shell, "list")


def as_html(shell: Shell, call: CommandCall) -> None:
    """Prints rows as HTML, or as a table again."""
    _toggle(shell, "html")


def _toggle(shell: Shell, mode: str) -> None:
    shell.display.mode = "table" if shell.display.mode == mode else mode
    shell.note(f"mode: {shell.display.mode}")


def on_or_off(call: CommandCall, current: bool) -> bool:
    """The value of a command that is on or off; without an argument it changes."""
    values = {"": not current, "on": True, "off": False, "always": True}
    written = " ".join(call.words()).lower()
    if written not in values:
        raise call.wrong("on or off")
    return values[written]
