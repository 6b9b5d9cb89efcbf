"""The commands that set variables, also from the rows of a statement, and that run the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from runnel import InterfaceError
from runnel.results.value_text import value_text
from runnel.shell.commands.call import CommandCall
from runnel.shell.conditions import truth
from runnel.shell.shell import Shell

_NAME = re.compile(r"\w+")


def set_variable(shell: Shell, call: CommandCall) -> None:
    """Sets a variable to the text of the other arguments; without arguments it lists all."""
    name, *values = call.words() or [""]
    if not name:
        for known, value in sorted(shell.variables.items()):
            shell.out.line(f"{known} = '{value}'")
        return
    assign(shell, name, "".join(values))


def assign(shell: Shell, name: str, value: str) -> None:
    """Sets a variable, and the option of the session with that name, if there is one."""
    if not _NAME.fullmatch(name):
        raise InterfaceError(
            f'"{name}" is not the name of a variable', hint="it has letters, digits and _"
        )
    if name in _OPTIONS:
        _OPTIONS[name](shell, value)
    shell.variables[name] = value


def _stop(shell: Shell, value: str) -> None:
    shell.stops_at_error = truth(value or "on")


def _echo(shell: Shell, value: str) -> None:
    shell.echoes = value.lower() in ("all", "queries")


def _quiet(shell: Shell, value: str) -> None:
    shell.display.is_quiet = truth(value or "on")


_OPTIONS: dict[str, Callable[[Shell, str], None]] = {
    "ON_ERROR_STOP": _stop,
    "ECHO": _echo,
    "QUIET": _quiet,
}
"""The variables of psql that change the session."""


def unset_variable(shell: Shell, call: CommandCall) -> None:
    """Removes variables."""
    for name in call.words():
        shell.variables.pop(name, None)


def get_environment(shell: Shell, call: CommandCall) -> None:
    """Sets a variable to the value of an environment variable, if that exists."""
    import os

    words = call.words()
    if len(words) != 2:
        raise call.wrong("a variable, and an environment variable")
    if words[1] in os.environ:
        assign(shell, words[0], os.environ[words[1]])


def set_from_row(shell: Shell, call: CommandCall) -> None:
    """Sets a variable for each column of the one row of a statement. NULL removes it."""
    words = call.words()
    if len(words) > 1:
        raise call.wrong("one prefix of the variables")
    prefix = words[0] if words else ""
    names, rows = _rows(shell, call, 2)
    if len(rows) != 1:
        count = "no row" if not rows else "more than one row"
        raise InterfaceError(f"{call.name} needs one row, and the statement returned {count}")
    for name, value in zip(names, rows[0], strict=True):
        if value is None:
            shell.variables.pop(prefix + name, None)
        else:
            assign(shell, prefix + name, value_text(value))


def run_values(shell: Shell, call: CommandCall) -> None:
    """Runs each value of the rows of a statement as a statement, row by row."""
    _, rows = _rows(shell, call, None)
    for row in rows:
        for value in row:
            if value is not None:
                shell.run_sql(value_text(value))


def _rows(
    shell: Shell, call: CommandCall, most: int | None
) -> tuple[list[str], Sequence[Sequence[Any]]]:
    """The names and rows of the last statement; at most `most` rows."""
    if shell.last_sql is None:
        raise InterfaceError(
            f"{call.name} ends a statement", hint=f"write SELECT 1 AS a {call.name}"
        )
    with shell.connection.execute(shell.last_sql) as cursor:
        if cursor.description is None:
            raise InterfaceError(f"{call.name} needs a query", hint="the statement has no rows")
        return cursor.columns, cursor.fetchall() if most is None else cursor.fetchmany(most)
