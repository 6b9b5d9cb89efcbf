"""COPY … FROM STDIN and COPY … TO STDOUT, in PostgreSQL's formats text and CSV.

In the format text, columns are separated by tabs, `\\N` is NULL, a backslash escapes, and the line
`\\.` ends the rows of a script:

    COPY t (id, name) FROM stdin;
    1<tab>Ada
    2<tab>\\N
    \\.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.errors import DataError, NotSupportedError, ProgrammingError, as_written
from runnel.planner.parse.query.copies import OptionValue, copy_options
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Name
from runnel.planner.parse.tokens import tokenize

if TYPE_CHECKING:
    from runnel import Connection
    from runnel.shell.terminal import Output

END = "\\."
"""The line after the rows of a script."""
_FORM = re.compile(r"\s*(?:\\?COPY)\b.*\b(?:FROM\s+P?STDIN|TO\s+P?STDOUT)\b", re.I | re.S)
_READING = re.compile(r"\s*(?:\\?COPY)\b[^']*\bFROM\s+P?STDIN\b", re.I | re.S)
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.S)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WRITTEN = str.maketrans(
    {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
)
_ROWS_AT_ONCE = 10_000

Row = tuple[str | None, ...]


@frozen
class RowFormat:
    """The format of rows.

    is_csv: CSV, not text.
    delimiter: between two columns.
    null: the text of NULL; in CSV without quotes.
    has_header: the first line has the names of the columns.
    """

    is_csv: bool
    delimiter: str
    null: str
    has_header: bool


@frozen
class CopyStream:
    """A COPY between a table and the standard input or output.

    table: the table; None: `query` has the rows.
    columns: its columns; (): all of them.
    query: the text of the query of TO, without its parentheses.
    is_reading: FROM STDIN.
    format: how rows are written.
    """

    table: Name | None
    columns: tuple[Name, ...]
    query: str
    is_reading: bool
    format: RowFormat


def is_reading(text: str) -> bool:
    """Whether a statement is COPY … FROM STDIN, whose rows follow in the script."""
    return _READING.match(text) is not None


def copy_stream(sql: str) -> CopyStream | None:
    """The statement as COPY FROM STDIN or TO STDOUT; None for any other statement."""
    if _FORM.match(sql) is None:
        return None
    reader = StatementReader(tokenize(sql), sql, {})
    reader.expect("COPY")
    table, columns, query = None, tuple[Name, ...](), ""
    if reader.accept("("):
        start = reader.position.offset
        reader.skip_to(")")
        query = sql[start : reader.position.offset]
        reader.expect(")")
    elif reader.at_string:
        return None
    else:
        table = reader.object_name("the name of a table")
        columns = reader.names("a column") if reader.peek() == "(" else ()
    reads = reader.peek() == "FROM"
    reader.next()
    if reader.peek() not in ("STDIN", "STDOUT", "PSTDIN", "PSTDOUT"):
        return None  # the words are in a string, or in an option
    if reads is not reader.peek().endswith("IN") or (reads and table is None):
        raise reader.error("STDIN after FROM, STDOUT after TO")
    reader.next()
    form = _format(copy_options(reader))
    reader.finish()
    return CopyStream(table, columns, query, reads, form)


def _format(options: Sequence[tuple[Name, OptionValue]]) -> RowFormat:
    found = {name.text.upper(): str(value) for name, value in options}
    kind = found.pop("FORMAT", "csv" if "CSV" in found else "text").lower()
    found.pop("CSV", None)
    found.pop("ENCODING", None)
    if kind not in ("text", "csv"):
        raise NotSupportedError(
            f"COPY between the standard streams in format {kind} is not supported",
            hint="write FORMAT text or csv, or name a file: COPY … TO 'f.parquet'",
        )
    header = found.pop("HEADER", "false").lower() in ("", "true", "on", "1", "match")
    delimiter = found.pop("DELIMITER", "," if kind == "csv" else "\t")
    null = found.pop("NULL", "" if kind == "csv" else "\\N")
    if found:
        raise NotSupportedError(
            f"the option {next(iter(found))} of COPY between the standard streams is not supported",
            hint="it has FORMAT, HEADER, DELIMITER and NULL; a file has more options",
        )
    if len(delimiter) != 1:
        raise ProgrammingError("the delimiter of COPY is one character")
    return RowFormat(kind == "csv", delimiter, null, header)


def _quoted(table: Name) -> str:
    """The name of a table, each part in quotes."""
    parts = (part.replace('"', '""') for part in (*table.qualifiers, table.local))
    return ".".join(f'"{part}"' for part in parts)


def read_rows(connection: Connection, copy: CopyStream, lines: Iterable[str]) -> int:
    """Inserts the rows, all or none; returns their number."""
    assert copy.table is not None
    table = _quoted(copy.table)
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    types = {str(row[0]).lower(): str(row[1]) for row in described}
    names = [name.text for name in copy.columns] or [str(row[0]) for row in described]
    # An unknown column is reported by the INSERT.
    casts = ", ".join(f"CAST(? AS {types.get(name.lower(), 'VARCHAR')})" for name in names)
    listed = ", ".join(map(as_written, names))
    binary = [n for n, name in enumerate(names) if types.get(name.lower()) == "VARBINARY"]
    rows = [_with_bytes(row, binary) for row in _parsed(lines, copy.format, len(names))]
    if not rows:
        return 0
    cursor = connection.cursor()
    try:
        cursor.executemany(
            f"INSERT INTO {table} ({listed}) OVERRIDING SYSTEM VALUE VALUES ({casts})", rows
        )
    finally:
        cursor.close()
    return len(rows)


def _with_bytes(row: Row, columns: Sequence[int]) -> tuple[str | bytes | None, ...]:
    """The row with the values of binary columns, written as `\\x` and hexadecimal digits."""
    if not columns:
        return row
    found: list[str | bytes | None] = list(row)
    for n in columns:
        text = row[n]
        if text is None:
            continue
        try:
            found[n] = bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
        except ValueError:
            raise DataError(f'"{text[:60]}" is no binary value', hint="write \\x0aff") from None
    return tuple(found)


def _parsed(lines: Iterable[str], form: RowFormat, width: int) -> Iterator[Row]:
    records = _csv_records(lines, form) if form.is_csv else _text_records(lines, form)
    for number, row in enumerate(records, 1):
        if number == 1 and form.has_header:
            continue
        if len(row) != width:
            raise DataError(
                f"row {number} of COPY has {len(row)} columns, but {width} are written",
                hint="columns are separated by " + ("tabs" if form.delimiter == "\t" else "commas"),
            )
        yield row


def _text_records(lines: Iterable[str], form: RowFormat) -> Iterator[Row]:
    for line in lines:
        fields = line.removesuffix("\n").removesuffix("\r").split(form.delimiter)
        yield tuple(
            None if item == form.null else _ESCAPE.sub(_unescaped, item) if "\\" in item else item
            for item in fields
        )


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)


def _csv_records(lines: Iterable[str], form: RowFormat) -> Iterator[Row]:
    """Rows of CSV. Text in quotes is never NULL, and may have line feeds:

    1,"a, b",     ->  ('1', 'a, b', None)
    """
    pattern = re.compile(rf'"((?:[^"]|"")*)"|([^{re.escape(form.delimiter)}"]*)', re.S)
    pending = ""
    for line in lines:
        pending += line
        if pending.count('"') % 2:
            continue
        text, pending = pending.removesuffix("\n").removesuffix("\r"), ""
        fields: list[str | None] = []
        at = 0
        while True:
            found = pattern.match(text, at)
            assert found is not None  # the second alternative matches nothing, too
            quoted, plain = found[1], found[2]
            at = found.end()
            if quoted is not None:
                fields.append(quoted.replace('""', '"'))
            else:
                fields.append(None if plain == form.null else plain)
            if at == len(text):
                break
            if text[at] != form.delimiter:
                raise DataError(f"a quote within a value of CSV: {text[:60]}")
            at += 1
        yield tuple(fields)
    if pending:
        raise DataError(f"a quote of CSV has no end: {pending[:60]}")


def write_rows(connection: Connection, copy: CopyStream, out: Output) -> int:
    """Prints the rows; returns their number."""
    source = f"({copy.query}\n)" if copy.table is None else _quoted(copy.table)
    listed = ", ".join(as_written(name.text) for name in copy.columns) or "*"
    cursor, count, form = connection.cursor(), 0, copy.format
    query = f"SELECT {listed} FROM {source} AS q"
    try:
        described = cursor.execute(f"DESCRIBE {query}").fetchall()
        names = [f"c{n}" for n in range(len(described))]
        texts = [
            f"'\\x' || LOWER(HEX({name}))" if row[1] == "VARBINARY" else f"CAST({name} AS VARCHAR)"
            for name, row in zip(names, described, strict=True)
        ]
        cursor.execute(f"SELECT {', '.join(texts)} FROM ({query}) AS r({', '.join(names)})")
        if form.has_header:
            out.line(form.delimiter.join(_written(str(row[0]), form) for row in described))
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            count += len(rows)
            for row in rows:
                out.line(form.delimiter.join(_written(value, form) for value in row))
    finally:
        cursor.close()
    return count


def _written(value: str | None, form: RowFormat) -> str:
    if value is None:
        return form.null
    if not form.is_csv:
        sign = form.delimiter
        text = value.translate(_WRITTEN)
        return text if sign == "\t" else text.replace(sign, f"\\{sign}")
    if value == form.null or any(sign in value for sign in (form.delimiter, '"', "\n", "\r")):
        return '"' + value.replace('"', '""') + '"'
    return value
