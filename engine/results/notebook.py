"""A cursor as a notebook shows it: its columns and the first available rows, which stay in the
cursor."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from runnel.errors import Error
from runnel.relation.nodes import Field

if TYPE_CHECKING:
    from runnel.results.rows import Result

SHOWN_ROWS = 20
SHOWN_CHARACTERS = 200
"""Maximum number of characters of one value."""


def html_of(result: Result | None, rowcount: int) -> str:
    """HTML for a cursor's last statement. It waits for the first rows of a query that ends; of a
    stream it shows the available rows. An error is shown as its text, and not raised."""
    if result is None:
        return (
            "<p>no statement was executed</p>"
            if rowcount < 0
            else f"<p>{rowcount:,} rows written</p>"
        )
    try:
        rows = result.preview(SHOWN_ROWS + 1)
    except Error as error:
        return f"<pre>{escape(f'{type(error).__name__}: {error}')}</pre>"
    return _table(result.fields, rows[:SHOWN_ROWS]) + _note(len(rows), result.is_unbounded)


def _table(fields: Sequence[Field], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(
        f"<th>{escape(item.name)}<br><small>{escape(str(item.type))}</small></th>"
        for item in fields
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{_value(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _value(value: Any) -> str:
    if value is None:
        return "<i>NULL</i>"
    text = str(value)
    return escape(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")


def _note(count: int, is_unbounded: bool) -> str:
    if is_unbounded:
        return (
            "<p>a stream: these rows have arrived, and others follow</p>"
            if count
            else "<p>a stream: no row yet</p>"
        )
    if count > SHOWN_ROWS:
        return f"<p>the first {SHOWN_ROWS} of the rows that are left</p>"
    return f"<p>{count:,} row{'' if count == 1 else 's'} left</p>"
