"""The rows of a cursor as text: a table of rows that end, a growing table of a stream, and formats
for programs chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runnel import Cursor
from runnel.relation.nodes import Field
from runnel.results.outcome_text import first_word, outcome_text
from runnel.results.table_text import LONGEST_CELL, MODES, TableLayout, table_text, text_width
from runnel.results.value_text import value_text
from runnel.shell.terminal import Output

CHUNK = 10_000
"""Number of rows that are fetched and printed at once."""
STREAM_CHUNK = 1_000
WIDEST_OF_STREAM = 40
"""Width up to which the columns of a growing table grow with their values."""
TABLES = ("table", "box", "ascii")
MODE_NAMES = ("table", *MODES)


@dataclass
class Display:
    """How results are printed; commands of the shell change it.

    mode: one of MODE_NAMES; "table" has the borders that the terminal can show.
    header: whether the names of columns are printed.
    null: the text of NULL; None: the text that the mode has for it.
    most: maximum number of rows of a table; 0: no maximum.
    is_paged: whether a table that is longer than the screen is shown in a pager.
    has_timer: whether the duration of each statement is printed.
    """

    mode: str = "table"
    header: bool = True
    null: str | None = None
    most: int = 0
    is_paged: bool = False
    has_timer: bool = False

    @property
    def is_for_people(self) -> bool:
        """Whether outcomes and counts are printed, which would damage formats for programs."""
        return self.mode in (*TABLES, "line")

    def layout(self, output: Output, **more: Any) -> TableLayout:
        """The layout of a part of a result."""
        mode = self.mode
        if mode == "table":
            mode = "box" if output.can_print("│─┼…") else "ascii"
        options = {"width": output.width, "rows": 0, "null": self.null, "header": self.header}
        return TableLayout(mode=mode, **(options | more))


def fields_of(cursor: Cursor) -> list[Field]:
    """The columns of the cursor's rows."""
    return [Field(column[0], column[1]) for column in cursor.description or ()]


def print_result(cursor: Cursor, display: Display, output: Output) -> None:
    """Prints the rows, or the outcome of a statement without rows."""
    if cursor.description is None:
        if display.is_for_people:
            output.line(outcome_text(cursor.query, cursor.rowcount))
    elif display.is_for_people and _is_plan(cursor):
        output.line("\n".join(str(row[0]) for row in cursor))
    elif not display.is_for_people:
        _print_chunks(cursor, display, output)
    elif cursor.is_unbounded:
        _print_stream(cursor, display, output)
    else:
        _print_table(cursor, display, output)


def print_rows(
    fields: Sequence[Field], rows: Sequence[Sequence[Any]], display: Display, output: Output
) -> None:
    """Prints rows that are in memory."""
    _show(table_text(fields, rows, display.layout(output)), display, output)


def _is_plan(cursor: Cursor) -> bool:
    names = [column[0] for column in cursor.description or ()]
    return names == ["plan"] and first_word(cursor.query) == "EXPLAIN"


def _print_table(cursor: Cursor, display: Display, output: Output) -> None:
    fields, most = fields_of(cursor), display.most
    rows = cursor.fetchmany(most + 1) if most else cursor.fetchall()
    is_cut = bool(most) and len(rows) > most
    if is_cut:
        rows = rows[:most]
    text = table_text(fields, rows, display.layout(output))
    note = counted(len(rows))
    if is_cut:
        note = f"the first {note}; .maxrows 0 prints all"
    _show(f"{text}\n{note}" if text else note, display, output)


def _show(text: str, display: Display, output: Output) -> None:
    if display.is_paged and output.is_terminal:
        output.page(text)
    else:
        output.line(text)


def counted(count: int) -> str:
    """ "1 row", "2,000 rows"."""
    return f"{count:,} row{'' if count == 1 else 's'}"


def chunks(cursor: Cursor) -> Iterator[list[tuple[Any, ...]]]:
    """The remaining rows; of a stream as they arrive."""
    size = STREAM_CHUNK if cursor.is_unbounded else CHUNK
    while rows := cursor.fetchmany(size):
        yield rows


def _print_stream(cursor: Cursor, display: Display, output: Output) -> None:
    """Prints rows as they arrive, until the end or Ctrl-C. The widths of columns only grow."""
    count, last = 0, ""
    layout: Callable[..., TableLayout] = display.layout
    fields = fields_of(cursor)
    least = [0 if item.type.is_numeric else 8 for item in fields]
    try:
        for rows in chunks(cursor):
            least = [
                max(width, min(_widest(rows, number), WIDEST_OF_STREAM))
                for number, width in enumerate(least)
            ]
            if not count and display.header:
                least = list(map(max, least, _heads(fields)))
            has_header = display.header and (display.mode == "line" or not count)
            shown = layout(output, header=has_header, least=least, first=count + 1)
            lines = table_text(fields, rows, shown).split("\n")
            if display.mode != "line":
                last = lines.pop()
                lines = lines[1:] if count else lines
            count += len(rows)
            output.line("\n".join(lines))
    finally:
        if last:
            output.line(last)
        output.line(counted(count))


def _heads(fields: Sequence[Field]) -> list[int]:
    return [
        max(text_width(item.name), min(len(str(item.type)), WIDEST_OF_STREAM)) for item in fields
    ]


def _widest(rows: Sequence[Sequence[Any]], number: int) -> int:
    return max((text_width(value_text(row[number])[:LONGEST_CELL]) for row in rows), default=0)


def _print_chunks(cursor: Cursor, display: Display, output: Output) -> None:
    try:
        for text in texts(cursor, display, output):
            output.line(text)
    except KeyboardInterrupt:
        if display.mode == "json":
            output.line("]")
        raise


def texts(cursor: Cursor, display: Display, output: Output) -> Iterator[str]:
    """The lines of a format for programs: all lines of a chunk at once."""
    fields = fields_of(cursor)
    if display.mode == "json":
        yield from _json_array(cursor, fields, display, output)
        return
    has_header = display.header
    for rows in chunks(cursor):
        yield table_text(fields, rows, display.layout(output, header=has_header))
        has_header = False
    if has_header and display.mode != "jsonlines":
        yield table_text(fields, [], display.layout(output))


def _json_array(
    cursor: Cursor, fields: Sequence[Field], display: Display, output: Output
) -> Iterator[str]:
    is_first = True
    yield "["
    for rows in chunks(cursor):
        body = table_text(fields, rows, display.layout(output)).split("\n")[1:-1]
        yield ("" if is_first else ",\n") + "\n".join(body)
        is_first = False
    yield "]"
