"""The command that repeats a statement."""

from __future__ import annotations

from datetime import datetime
from threading import Event

from runnel import InterfaceError
from runnel.shell.commands.call import CommandCall
from runnel.shell.shell import Shell

EVERY = 2.0
"""Seconds between two executions, unless the call has another number."""
LONGEST = 86_400.0


def watch(shell: Shell, call: CommandCall) -> None:
    """Runs a statement again and again, with a pause, until Ctrl-C or an error."""
    first, _, rest = call.rest.partition(" ")
    seconds = _seconds(first)
    sql = (rest if seconds is not None else call.rest).strip() or shell.last_sql
    pause = EVERY if seconds is None else seconds
    if not 0 < pause <= LONGEST:
        raise call.wrong(f"a number of seconds above 0 and up to {LONGEST:,.0f}")
    if sql is None:
        raise InterfaceError(
            "there is no statement to repeat",
            hint="write one after the seconds: \\watch 2 SHOW JOBS",
        )
    shell.last_sql = sql
    waiting = Event()
    while True:
        if shell.display.is_for_people:
            shell.out.line(f"{datetime.now():%H:%M:%S}, every {pause:g} s: {sql}")
        shell.run_sql(sql)
        waiting.wait(pause)


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
