"""Sniffing the files of a mapping: one function, and the value that it returns.

Options of the statement are never changed. The options that were found are stored with the
mapping: a mapping that is opened again is not sniffed again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from runnel.connector import ColumnDefinition
from runnel.connectors.files.format import sample_of
from runnel.connectors.files.input import not_decodable, open_bytes, open_input, reading
from runnel.connectors.files.options import (
    COMMENT,
    DATE_FORMAT,
    DELIMITER,
    ENCODING,
    HEADER,
    TIMESTAMP_FORMAT,
    CsvDialect,
    FileOptions,
)
from runnel.connectors.files.sniffing.contents import check_contents
from runnel.connectors.files.sniffing.dates import found_formats
from runnel.connectors.files.sniffing.delimiter import Layout, found_layout
from runnel.connectors.files.sniffing.encoding import UTF_8, is_like_ascii, marked_encoding
from runnel.connectors.files.sniffing.header import Header, found_header
from runnel.connectors.files.storage import DataFile
from runnel.errors import NotSupportedError, ProgrammingError

SAMPLE_BYTES = 1 << 16
"""How many bytes of a file are read to find its dialect."""
LONGEST_SAMPLE = 1 << 22
"""How many are read if these have no whole line."""
OTHER_BYTES = 1 << 12
"""How many bytes of each further file are read, to compare its delimiter."""

_COMMENTED = re.compile(r"^#", re.MULTILINE)
TEXT_FORMATS = frozenset({"csv", "json", "lines"})


@dataclass(frozen=True, slots=True)
class Sniffed:
    """The options that were found in the files of a mapping.

    path: the file whose rows were sampled.
    format: csv, json, lines, parquet, arrow or avro.
    encoding: the encoding of text.
    dialect: the dialect of CSV files; None for other formats.
    unset: the names of the options that were found rather than set by the statement.
    header_is_assumed: whether the first row counts as a header although nothing in the file
        confirms it, because all of its values are text.
    unclear_date: a date whose day and month can't be told apart, so that its column stays text.
    """

    path: str
    format: str
    encoding: str
    dialect: CsvDialect | None
    unset: frozenset[str]
    header_is_assumed: bool = False
    unclear_date: str | None = None

    def options(self) -> dict[str, str]:
        """The options that were found and differ from the defaults, by name."""
        found = {}
        if ENCODING.name in self.unset and self.encoding != UTF_8:
            found[ENCODING.name] = self.encoding
        if self.dialect is None:
            return found
        changed = self.dialect.changed()
        return found | {name: value for name, value in changed.items() if name in self.unset}


def sniffed(
    format_name: str,
    options: FileOptions,
    files: Sequence[DataFile],
    declared: Sequence[ColumnDefinition] = (),
) -> Sniffed:
    """Finds the options that the statement leaves out, in a bounded sample of the files.

    Errors: DataError for a file that evidently has another format, or another encoding;
    ProgrammingError for CSV files with different delimiters. Empty files say nothing, so that
    the defaults apply.
    """
    sample = [file for file in sample_of(files) if file.size]
    check_contents(sample, format_name, options.compression)
    if format_name not in TEXT_FORMATS or not sample:
        dialect = options.dialect if format_name == "csv" else None
        path = files[0].path if files else options.path
        return Sniffed(path, format_name, options.encoding, dialect, frozenset())
    encoding = options.encoding
    if ENCODING.name in options.unset:
        encoding = _marked(sample[0], options.compression) or encoding
    if options.follow and not is_like_ascii(encoding):
        raise NotSupportedError(
            f'file "{sample[0].path}" is in {encoding}, which can\'t be followed',
            hint="convert it to UTF-8, or read it without 'follow'",
        )
    options = replace(options, encoding=encoding)
    if format_name != "csv":
        return Sniffed(sample[0].path, format_name, encoding, None, options.unset)
    return _sniffed_csv(options, sample, declared)


def with_found(options: FileOptions, found: Sniffed) -> FileOptions:
    """The options with what was found."""
    dialect = options.dialect if found.dialect is None else found.dialect
    return replace(options, encoding=found.encoding, dialect=dialect, unset=frozenset())


def _sniffed_csv(
    options: FileOptions, sample: Sequence[DataFile], declared: Sequence[ColumnDefinition]
) -> Sniffed:
    found: tuple[DataFile, Layout] | None = None
    for file in sample:
        # Rows are padded when the delimiter is known.
        ragged = replace(options, dialect=replace(options.dialect, pads=False))
        layout = _layout(_sample_text(file, ragged), ragged, file)
        if layout.rows:
            found = file, layout
            break
    if found is None:
        return Sniffed(sample[0].path, "csv", options.encoding, options.dialect, frozenset())
    file, layout = found
    dialect, rows = layout.dialect, layout.rows
    columns = [(item.external_name or item.name, item.type) for item in declared]
    header = Header(dialect.header)
    if HEADER.name in options.unset:
        header = found_header(rows, columns)
    body = rows[1:] if header.exists else rows
    dialect = replace(dialect, header=header.exists, pads=options.dialect.pads)
    dialect, unclear = _with_formats(dialect, body, options.unset)
    result = Sniffed(
        file.path, "csv", options.encoding, dialect, options.unset, header.is_assumed, unclear
    )
    if DELIMITER.name in options.unset:
        _check_others(result, layout.width, sample, options)
    return result


def _layout(text: str, options: FileOptions, file: DataFile) -> Layout:
    """The layout of a sample. Lines that begin with # are comments if all rows have the same
    number of fields without them, and not with them."""
    found = found_layout(text, options.dialect, options.unset)
    if COMMENT.name not in options.unset or found.share == 1 or _COMMENTED.search(text) is None:
        return found
    commented = replace(options, dialect=replace(options.dialect, comment="#"))
    without = found_layout(_sample_text(file, commented), commented.dialect, commented.unset)
    return without if without.width > 1 and without.share == 1 else found


def _with_formats(
    dialect: CsvDialect, body: Sequence[tuple[str, ...]], unset: frozenset[str]
) -> tuple[CsvDialect, str | None]:
    """The dialect with the formats of dates, and a date that is not clear."""
    width = max(map(len, body), default=0)
    nulls = {dialect.null, *dialect.more_nulls} - {""}
    columns = [
        [row[i] for row in body if i < len(row) and row[i] not in nulls] for i in range(width)
    ]
    formats = found_formats(columns)
    if DATE_FORMAT.name in unset and formats.date is not None:
        dialect = replace(dialect, date_format=formats.date)
    if TIMESTAMP_FORMAT.name in unset and formats.timestamp is not None:
        dialect = replace(dialect, timestamp_format=formats.timestamp)
    return dialect, formats.unclear


def _marked(file: DataFile, compression: str) -> str | None:
    """The encoding of a file's byte order mark."""
    with reading(file.path), open_bytes(file.path, compression) as stream:
        found = marked_encoding(stream.read(4))
    return None if found is None else found[0]


def _sample_text(file: DataFile, options: FileOptions, size: int = SAMPLE_BYTES) -> str:
    """The start of a file as text of whole lines; DataError if it is not of the encoding."""
    data, is_end = b"", False
    with reading(file.path), open_input(file.path, options) as stream:
        while not is_end and b"\n" not in data and len(data) < LONGEST_SAMPLE:
            # A stream may return less than was asked for before its end.
            block = stream.read(size)
            while block and len(block) < size and (more := stream.read(size - len(block))):
                block += more
            is_end = len(block) < size
            data += block
            size *= 4
    if not is_end:
        data = data[: data.rfind(b"\n") + 1] or data
    if options.encoding == UTF_8 and data.count(0) > len(data) // 8:
        # Zeros are valid UTF-8, but every second byte is a zero in UTF-16.
        raise not_decodable(file.path, UTF_8, None, data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not options.on_error.fails or (not is_end and error.end == len(data)):
            return data.decode("utf-8-sig", "replace")
        line = data.count(b"\n", 0, error.start) + 1
        raise not_decodable(file.path, UTF_8, line, data) from None


def _check_others(
    found: Sniffed, width: int, sample: Sequence[DataFile], options: FileOptions
) -> None:
    """Fails if a file has another delimiter than the one found, or no header where that has."""
    assert found.dialect is not None
    for file in sample:
        if file.path == found.path or width < 2:
            continue
        text = _sample_text(file, options, OTHER_BYTES)
        own = replace(found.dialect, header=True)
        rows = found_layout(text, own, frozenset()).rows
        if not rows or len(rows[0]) > 1:
            continue
        other = found_layout(text, options.dialect, options.unset)
        delimiter = other.dialect.delimiter
        if other.width > 1 and delimiter != found.dialect.delimiter:
            raise ProgrammingError(
                "the files have different delimiters",
                detail=f"file \"{found.path}\" has '{_shown(found.dialect.delimiter)}', "
                f"file \"{file.path}\" has '{_shown(delimiter)}'",
                hint="read them as two mappings, or name the files of one kind in the path",
            )


def _shown(delimiter: str) -> str:
    return "\\t" if delimiter == "\t" else delimiter
