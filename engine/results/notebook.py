"""A cursor as a notebook shows it: its columns and the first available rows, which stay in the
cursor."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from runnel.errors import Error
from runnel.relation.nodes import Field
from runnel.results.display import plan_text, rows_note
from runnel.results.outcome_text import outcome_text
from runnel.results.rows import SHOWN_ROWS
from runnel.results.value_text import value_text

if TYPE_CHECKING:
    from runnel.results.rows import Result

SHOWN_CHARACTERS = 200
"""Maximum number of characters of one value."""


def html_of(result: Result | None, sql: str | None, rowcount: int) -> str:
    """HTML for a cursor's last statement. It waits for the first rows of a query that ends; of a
    stream it shows the available rows. An error is shown as its text, and not raised."""
    if result is None:
        return f"<p>{escape(outcome_text(sql, rowcount))}</p>"
    try:
        result.gather(SHOWN_ROWS + 1)
    except Error as error:
        return f"<pre>{escape(f'{type(error).__name__}: {error}')}</pre>"
    plan = plan_text(result, sql)
    if plan is not None:
        return f"<pre>{escape(plan)}</pre>"
    rows, left = result.peek(SHOWN_ROWS)
    note = rows_note(result, len(rows), left)
    return f"{_table(result.fields, rows)}<p>{escape(note)}</p>"


def _table(fields: Sequence[Field], rows: Sequence[Sequence[Any]]) -> str:
    """The spaces and line feeds of values are retained."""
    head = "".join(
        f"<th>{escape(item.name)}<br><small>{escape(str(item.type))}</small></th>"
        for item in fields
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{_value(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    style = "white-space: pre-wrap; text-align: left"
    return f'<table><thead><tr>{head}</tr></thead><tbody style="{style}">{body}</tbody></table>'


def _value(value: Any) -> str:
    if value is None:
        return "<i>NULL</i>"
    text = value_text(value)
    return escape(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")
