"""The rows of a cursor as text: a table of rows that end, a growing table of a stream, and formats
for programs chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runnel import Cursor
from runnel.relation.nodes import Field
from runnel.results.outcome_text import first_word, outcome_text
from runnel.results.table_text import MODES, table_text
from runnel.results.text_layout import LONGEST_CELL, TableLayout, text_width
from runnel.results.value_text import value_text
from runnel.shell.terminal import Output

CHUNK = 10_000
"""Number of rows that are fetched and printed at once."""
STREAM_CHUNK = 1_000
WIDEST_OF_STREAM = 40
"""Width up to which the columns of a growing table grow with their values."""
TABLES = ("table", "box", "ascii", "column")
MODE_NAMES = ("table", *MODES)
ENCLOSED = {"json": ("[", "]", ",\n"), "html": ("<table>", "</table>", "")}
"""The modes that print rows between two lines: these lines, and the text between two chunks."""


@dataclass
class Display:
    """How results are printed; commands of the shell change it.

    mode: one of MODE_NAMES; "table" has the borders that the terminal can show.
    header: whether the names of columns are printed.
    tuples_only: a table is rows alone: without names, borders and number of rows.
    is_quiet: outcomes such as "2 rows inserted" are not printed.
    null: the text of NULL; None: the text that the mode has for it.
    separator: the text between two values in list, csv and tsv; "": the mode's own.
    table: name of the table in the mode "insert".
    most: maximum number of rows of a table; 0: no maximum.
    is_paged: whether a table that is longer than the screen is shown in a pager.
    has_timer: whether the duration of each statement is printed.
    """

    mode: str = "table"
    header: bool = True
    tuples_only: bool = False
    is_quiet: bool = False
    null: str | None = None
    separator: str = ""
    table: str = "table"
    most: int = 0
    is_paged: bool = False
    has_timer: bool = False

    @property
    def is_for_people(self) -> bool:
        """Whether outcomes and counts are printed, which would damage formats for programs."""
        return self.mode in (*TABLES, "line")

    @property
    def has_borders(self) -> bool:
        """Whether rows are printed with lines around them, or in the mode "line"."""
        return self.mode != "column" and not self.tuples_only

    @property
    def has_names(self) -> bool:
        """Whether the names of columns are printed."""
        return self.header and not self.tuples_only

    def layout(self, output: Output, **more: Any) -> TableLayout:
        """The layout of a part of a result."""
        mode, separator = self.mode, self.separator
        if mode in TABLES and self.tuples_only:
            mode, separator = "column", " | "
        elif mode == "table":
            mode = "box" if output.can_print("│─┼…") else "ascii"
        options = {
            "width": output.width,
            "rows": 0,
            "null": self.null,
            "header": self.has_names,
            "separator": "" if mode == "column" and not self.tuples_only else separator,
            "table": self.table,
        }
        return TableLayout(mode=mode, **(options | more))


def separator_of(text: str) -> str:
    """A separator as it is typed: "\\t" is a tab."""
    return text.replace("\\t", "\t").replace("\\n", "\n")


def fields_of(cursor: Cursor) -> list[Field]:
    """The columns of the cursor's rows."""
    return [Field(column[0], column[1]) for column in cursor.description or ()]


def print_result(cursor: Cursor, display: Display, output: Output) -> None:
    """Prints the rows, or the outcome of a statement without rows."""
    if cursor.description is None:
        if display.is_for_people and not display.is_quiet:
            output.line(outcome_text(cursor.query, cursor.rowcount))
    elif display.is_for_people and _is_plan(cursor):
        output.line("\n".join(str(row[0]) for row in cursor))
    elif not display.is_for_people or (cursor.is_unbounded and not display.has_borders):
        _print_chunks(cursor, display, output)
    elif cursor.is_unbounded:
        _print_stream(cursor, display, output)
    else:
        _print_table(cursor, display, output)


def print_rows(
    fields: Sequence[Field], rows: Sequence[Sequence[Any]], display: Display, output: Output
) -> None:
    """Prints rows that are in memory."""
    text = table_text(fields, rows, display.layout(output))
    if text:
        _show(text, display, output)


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
    if display.tuples_only and not is_cut:
        if text:
            _show(text, display, output)
        return
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
            if not count and display.has_names:
                least = list(map(max, least, _heads(fields)))
            has_header = display.has_names and (display.mode == "line" or not count)
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
        if display.mode in ENCLOSED:
            output.line(ENCLOSED[display.mode][1])
        raise


def texts(cursor: Cursor, display: Display, output: Output) -> Iterator[str]:
    """The lines of a format for programs: all lines of a chunk at once."""
    fields = fields_of(cursor)
    if display.mode in ENCLOSED:
        yield from _enclosed(cursor, fields, display, output)
        return
    has_header = display.has_names
    for rows in chunks(cursor):
        yield table_text(fields, rows, display.layout(output, header=has_header))
        has_header = False
    if has_header and display.mode not in ("jsonlines", "insert"):
        yield table_text(fields, [], display.layout(output))


def _enclosed(
    cursor: Cursor, fields: Sequence[Field], display: Display, output: Output
) -> Iterator[str]:
    """Rows between a first and a last line, which the text of each chunk has."""
    first, last, between = ENCLOSED[display.mode]
    has_header, is_first = display.has_names, True
    yield first
    for rows in chunks(cursor):
        layout = display.layout(output, header=has_header)
        body = table_text(fields, rows, layout).split("\n")[1:-1]
        yield ("" if is_first else between) + "\n".join(body)
        has_header = is_first = False
    yield last
