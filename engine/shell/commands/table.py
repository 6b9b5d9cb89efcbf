"""The commands of the shell: lines that begin with "." or "\\"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import runnel.shell.commands.catalog as catalog
import runnel.shell.commands.files as files
import runnel.shell.commands.psql as psql
import runnel.shell.commands.relations as relations
import runnel.shell.commands.session_variables as variables
from runnel import InterfaceError
from runnel.base.frozen import frozen
from runnel.errors import suggest
from runnel.shell.commands.absent import ABSENT, ABSENT_MODES
from runnel.shell.commands.call import CommandCall, LeaveShell
from runnel.shell.commands.watching import watch
from runnel.shell.printing import MODE_NAMES, separator_of
from runnel.shell.shell import Shell

_COMMAND = re.compile(r"\s*(\.|\\)([A-Za-z][A-Za-z_]*\+?|\?|!)\s*(.*?)\s*;?\s*\Z", re.DOTALL)
_LISTING = re.compile(r"(\\(?:d[a-zTD]*|l|list|z))[S+]+")
_LONGEST_ARGUMENT = 40


@frozen
class ShellCommand:
    """A command.

    run: runs it.
    arguments: its arguments, for the help.
    summary: its sentence in the help.
    """

    run: Callable[[Shell, CommandCall], None]
    arguments: str
    summary: str


def command_of(text: str) -> tuple[str, str]:
    """The name of a command in COMMANDS, and its arguments. InterfaceError for an unknown name."""
    found = _COMMAND.match(text)
    written = f"{found[1]}{found[2]}" if found else text.split()[0]
    # The commands of psql distinguish \c and \C; + and S request details and system tables.
    listing = _LISTING.fullmatch(written)
    known = listing[1] if listing else written if written[:1] == "\\" else written.lower()
    if known in ABSENT:
        raise InterfaceError(f'the command "{written}" is not supported', hint=ABSENT[known])
    name = ALIASES.get(known, known)
    if found is None or name not in COMMANDS:
        raise InterfaceError(
            f'there is no command "{written[:_LONGEST_ARGUMENT]}"',
            hint=suggest(written, (*COMMANDS, *ALIASES), "\\? lists the commands"),
        )
    return name, found[3]


def run_command(shell: Shell, text: str) -> None:
    """Runs the line of a command."""
    name, rest = command_of(text)
    COMMANDS[name].run(shell, CommandCall(name, rest))


def _mode(shell: Shell, call: CommandCall) -> None:
    words = call.words()
    mode = _MODES.get(words[0].lower(), words[0].lower()) if words else ""
    if mode and mode not in MODE_NAMES:
        near = ABSENT_MODES.get(mode)
        raise InterfaceError(
            f'there is no mode "{words[0]}"',
            hint=near or "the modes are " + ", ".join(MODE_NAMES),
        )
    if len(words) > (2 if mode == "insert" else 1):
        raise call.wrong("a mode, and after insert the name of a table")
    if mode == "insert":
        shell.display.table = words[1] if len(words) == 2 else "table"
    shell.display.mode = mode or shell.display.mode
    if not mode:
        shell.note(f"mode: {shell.display.mode}")


_MODES = {"duckbox": "table", "tabs": "tsv", "columns": "column", "lines": "line"}
"""Other names of modes."""


def _separator(shell: Shell, call: CommandCall) -> None:
    words = call.words()
    if len(words) > 1:
        raise call.wrong("one text, in quotes if it has spaces")
    shell.display.separator = separator_of(words[0]) if words else ""


def _lines(shell: Shell, call: CommandCall) -> None:
    if call.rest.lower() == "auto":
        raise InterfaceError(
            "\\x auto is not supported", hint="write \\x, or \\gx at the end of one statement"
        )
    is_on = psql.on_or_off(call, shell.display.mode == "line")
    shell.display.mode = "line" if is_on else "table"
    shell.note(f"mode: {shell.display.mode}")


def _timer(shell: Shell, call: CommandCall) -> None:
    shell.display.has_timer = psql.on_or_off(call, shell.display.has_timer)
    shell.note(f"timer: {'on' if shell.display.has_timer else 'off'}")


def _pager(shell: Shell, call: CommandCall) -> None:
    shell.display.is_paged = psql.on_or_off(call, shell.display.is_paged)
    shell.note(f"pager: {'on' if shell.display.is_paged else 'off'}")


def _headers(shell: Shell, call: CommandCall) -> None:
    shell.display.header = psql.on_or_off(call, shell.display.header)
    shell.note(f"headers: {'on' if shell.display.header else 'off'}")


def _echo(shell: Shell, call: CommandCall) -> None:
    shell.echoes = psql.on_or_off(call, shell.echoes)


def _bail(shell: Shell, call: CommandCall) -> None:
    shell.stops_at_error = psql.on_or_off(call, shell.stops_at_error)


def _null_text(shell: Shell, call: CommandCall) -> None:
    words = call.words()
    if len(words) > 1:
        raise call.wrong("one text, in quotes if it has spaces")
    shell.display.null = words[0] if words else None


def _most_rows(shell: Shell, call: CommandCall) -> None:
    if not call.rest:
        shell.note(f"maxrows: {shell.display.most}")
    elif call.rest.isascii() and call.rest.isdigit() and len(call.rest) < 10:
        shell.display.most = int(call.rest)
    else:
        raise call.wrong("a number of rows; 0: all")


def _show(shell: Shell, call: CommandCall) -> None:
    display, on = shell.display, {True: "on", False: "off"}
    values = {
        "bail": on[shell.stops_at_error],
        "echo": on[shell.echoes],
        "headers": on[display.header],
        "maxrows": str(display.most),
        "mode": display.mode,
        "nullvalue": "NULL" if display.null is None else repr(display.null),
        "output": "stdout" if shell.out is shell.standard_out else "a file",
        "pager": on[display.is_paged],
        "separator": repr(display.separator) if display.separator else "the one of the mode",
        "timer": on[display.has_timer],
        "tuples_only": on[display.tuples_only],
    }
    for name, value in values.items():
        shell.out.line(f"{name}: {value}")


def _quit(shell: Shell, call: CommandCall) -> None:
    raise LeaveShell


def _help(shell: Shell, call: CommandCall) -> None:
    heads = {name: f"{name} {command.arguments}".strip() for name, command in COMMANDS.items()}
    width = max(map(len, heads.values()))
    lines = [f"  {heads[name]:{width}}  {item.summary}" for name, item in COMMANDS.items()]
    also = ", ".join(f"{alias} = {name}" for alias, name in ALIASES.items())
    text = "\n".join(
        [
            "A statement ends with a semicolon. The other commands are:",
            *lines,
            "\\if VALUE, \\elif VALUE, \\else and \\endif run or skip the lines between them.",
            f"Also: {also}.",
        ]
    )
    if shell.is_interactive and shell.out.is_terminal and shell.display.is_paged:
        shell.out.page(text)
    else:
        shell.out.line(text)


COMMANDS: Mapping[str, ShellCommand] = {
    "\\d": ShellCommand(catalog.describe, "[NAME]", "list tables and views, or describe one"),
    "\\dt": ShellCommand(catalog.list_tables, "[PATTERN]", "list tables"),
    "\\dv": ShellCommand(catalog.list_views, "[PATTERN]", "list views"),
    "\\df": ShellCommand(catalog.list_functions, "[PATTERN]", "list functions"),
    "\\ds": ShellCommand(psql.list_sequences, "", "list sequences"),
    "\\di": ShellCommand(psql.list_indexes, "", "list keys and indexes"),
    "\\du": ShellCommand(relations.list_roles, "", "list the roles: one"),
    "\\dT": ShellCommand(relations.list_types, "", "list the types"),
    "\\dd": ShellCommand(relations.list_comments, "", "list the comments"),
    "\\dj": ShellCommand(catalog.list_jobs, "[PATTERN]", "list jobs"),
    "\\watch": ShellCommand(
        watch, "[SECONDS] [SQL]", "repeat a statement, or the last one, until Ctrl-C"
    ),
    "\\l": ShellCommand(psql.list_databases, "", "list the databases"),
    "\\dn": ShellCommand(psql.list_schemas, "", "list the schemas"),
    "\\conninfo": ShellCommand(psql.connection_info, "", "print the connection"),
    "\\copy": ShellCommand(psql.copy, "TABLE|(SQL) TO|FROM FILE …", "COPY, also without quotes"),
    "\\echo": ShellCommand(psql.echo, "TEXT", "print a text"),
    "\\qecho": ShellCommand(psql.echo_to_results, "TEXT", "print a text where results go"),
    "\\warn": ShellCommand(psql.warn, "TEXT", "print a text to the standard error"),
    "\\set": ShellCommand(
        variables.set_variable, "[NAME [VALUE]]", "set a variable, or list all: :name, :'name'"
    ),
    "\\unset": ShellCommand(variables.unset_variable, "NAME", "remove a variable"),
    "\\getenv": ShellCommand(
        variables.get_environment, "NAME VARIABLE", "set a variable to one of the environment"
    ),
    "\\gset": ShellCommand(
        variables.set_from_row, "[PREFIX]", "run a statement, and set variables from its row"
    ),
    "\\gexec": ShellCommand(
        variables.run_values, "", "run a statement, and each value of its rows as a statement"
    ),
    "\\g": ShellCommand(psql.run_again, "[FILE]", "run a statement, with its rows to a file"),
    "\\prompt": ShellCommand(psql.prompt, "[TEXT] NAME", "ask for the value of a variable"),
    "\\encoding": ShellCommand(psql.encoding, "", "print the encoding: UTF8"),
    "\\gdesc": ShellCommand(psql.describe_statement, "", "print the columns of a statement"),
    "\\p": ShellCommand(psql.print_statement, "", "print the last statement"),
    "\\w": ShellCommand(psql.write_statement, "FILE", "write the last statement to a file"),
    "\\cd": ShellCommand(psql.change_folder, "[FOLDER]", "change the folder of relative paths"),
    ".once": ShellCommand(psql.output_once, "FILE", "write the next result to a file"),
    ".echo": ShellCommand(_echo, "[on|off]", "print each statement before it runs"),
    ".clear": ShellCommand(psql.clear, "", "clear the screen"),
    "\\o": ShellCommand(psql.output, "[FILE]", "write results to a file; without: print them"),
    "\\pset": ShellCommand(
        psql.options, "NAME [VALUE]", "set null, format, pager, tuples_only, expanded or fieldsep"
    ),
    "\\t": ShellCommand(psql.tuples_only, "[on|off]", "print rows alone"),
    "\\H": ShellCommand(psql.as_html, "", "print rows as HTML, or as table again"),
    "\\a": ShellCommand(psql.unaligned, "", "print rows as list, or as table again"),
    "\\!": ShellCommand(psql.program, "COMMAND", "run a command of the system"),
    "\\e": ShellCommand(files.edit, "", "edit the last statement in $EDITOR, and run it"),
    ".tables": ShellCommand(catalog.table_names, "[PATTERN]", "print the names of tables"),
    ".schema": ShellCommand(
        catalog.definitions, "[PATTERN]", "print columns and options as CREATE statements"
    ),
    ".mode": ShellCommand(_mode, "[MODE [TABLE]]", "print results as " + ", ".join(MODE_NAMES)),
    "\\x": ShellCommand(_lines, "[on|off]", "print each value on a line of its own"),
    ".timer": ShellCommand(_timer, "[on|off]", "print the duration of statements"),
    ".headers": ShellCommand(_headers, "[on|off]", "print the names of columns"),
    ".nullvalue": ShellCommand(_null_text, "[TEXT]", "print NULL as a text"),
    ".separator": ShellCommand(
        _separator, "[TEXT]", "separate the values of list, csv and tsv by a text"
    ),
    ".maxrows": ShellCommand(_most_rows, "[NUMBER]", "limit the rows of a table; 0: all"),
    ".pager": ShellCommand(_pager, "[on|off]", "show long tables in $PAGER, or less"),
    ".bail": ShellCommand(_bail, "[on|off]", "end a script at its first error (default: on)"),
    ".import": ShellCommand(files.import_file, "FILE TABLE", "load a file into a table"),
    ".export": ShellCommand(
        files.export, "FILE TABLE|SQL", "write rows as CSV, TSV, JSON, Markdown or Parquet"
    ),
    ".read": ShellCommand(files.read_script, "FILE", "run the statements of a file"),
    ".open": ShellCommand(files.open_other, "[DIR]", "close the connection, and open another"),
    ".show": ShellCommand(_show, "", "print how results are printed"),
    ".quit": ShellCommand(_quit, "", "end the session"),
    ".help": ShellCommand(_help, "", "print this list"),
}
"""The commands by name, in the order of the help."""

ALIASES = {
    "\\?": ".help",
    "\\h": ".help",
    "\\q": ".quit",
    "\\dg": "\\du",
    ".exit": ".quit",
    "\\timing": ".timer",
    "\\i": ".read",
    "\\ir": ".read",
    "\\c": ".open",
    "\\connect": ".open",
    "\\list": "\\l",
    ".output": "\\o",
    "\\out": "\\o",
    ".databases": "\\l",
    ".indexes": "\\di",
    ".indices": "\\di",
    ".print": "\\echo",
    ".shell": "\\!",
    ".system": "\\!",
    ".cd": "\\cd",
    ".edit": "\\e",
    ".header": ".headers",
    "\\f": ".separator",
    "\\sv": ".schema",
    "\\help": ".help",
}
"""Other names of commands."""
