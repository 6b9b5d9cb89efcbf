"""A cursor as people see it at a prompt, and by `show()`.

What a prompt shows is only peeked at: rows remain to be fetched, nothing is waited for, and no job
is started.
"""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from runnel.errors import InterfaceError
from runnel.results.outcome_text import first_word, outcome_text
from runnel.results.table_text import table_text
from runnel.results.text_layout import TableLayout

if TYPE_CHECKING:
    from runnel.results.rows import Result, Row


def shown_text(
    result: Result | None, sql: str | None, rowcount: int, rows: int, width: int | None
) -> str:
    """The next rows of a cursor that have arrived, and a line on the rest; or the outcome
    of a statement without rows.

    rows: maximum number of rows.
    width: maximum number of characters of a line; None: the width of the terminal; 0: no maximum.
    """
    if result is None:
        return outcome_text(sql, rowcount)
    plan = plan_text(result, sql)
    if plan is not None:
        return plan
    shown, left = result.peek(rows)
    return f"{_table(result, shown, width)}\n{rows_note(result, len(shown), left)}"


def checked_size(name: str, value: Any) -> int:
    """A number of rows or characters that a user passed; InterfaceError for another value."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InterfaceError(f"{name} of show() is a number from 0 on, not {value!r}")
    return value


def print_text(text: str) -> None:
    """Prints it; characters that the standard output cannot encode become question marks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def plan_text(result: Result, sql: str | None) -> str | None:
    """The lines of a plan, with their indentation; None if the statement is not EXPLAIN."""
    if first_word(sql) != "EXPLAIN" or [item.name for item in result.fields] != ["plan"]:
        return None
    _, left = result.peek(0)
    rows, _ = result.peek(left or 0)
    return "\n".join(str(row[0]) for row in rows)


def _table(result: Result, rows: list[Row], width: int | None) -> str:
    if not result.fields:
        return "(no columns)"
    mode = "box" if _can_print("│─┼…") else "ascii"
    width = get_terminal_size((100, 24)).columns if width is None else width
    return table_text(result.fields, rows, TableLayout(mode=mode, width=width, rows=0))


def _can_print(text: str) -> bool:
    """Whether the standard output can encode a text."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def rows_note(result: Result, shown: int, left: int | None) -> str:
    """The line below the rows that are shown.

    shown: number of rows that are shown.
    left: number of rows that remain to be fetched; None: unknown.
    """
    counted = f"{shown:,} row{'' if shown == 1 else 's'}"
    if result.is_unbounded and left is None:
        return (
            f"a stream: {counted} that arrived; fetch rows or iterate to read on"
            if shown
            else "a stream: no row yet; fetch rows or iterate to read it"
        )
    if result.has_failed:
        return f"{counted}; then the query failed: a fetch raises the error"
    if left is None:
        return (
            f"the first {counted}; the query still runs"
            if shown
            else "running: no row yet; show() and fetches wait for rows"
        )
    if left > shown:
        counted = f"the first {counted} of {left:,}"
    return f"{counted} left ({result.fetched:,} fetched)" if result.fetched > 0 else counted
