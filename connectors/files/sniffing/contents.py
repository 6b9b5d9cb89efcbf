"""Recognises the format of a file by its first bytes, to refuse a file that is read as another."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runnel.connectors.files.input import open_bytes, reading
from runnel.connectors.files.options import compression_of
from runnel.connectors.files.storage import DataFile
from runnel.errors import DataError

START_BYTES = 4096
"""How many bytes at the start of a file are looked at."""

_MARKS: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "Parquet", "parquet"),
    (b"ARROW1", "an Arrow file", "arrow"),
    (b"Obj\x01", "Avro", "avro"),
    (b"\x1f\x8b", "compressed by gzip", "gz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "zst"),
    (b"BZh", "compressed by bzip2", "bz2"),
    (b"\x04\x22\x4d\x18", "compressed by lz4", "lz4"),
    (b"PK\x03\x04", "a ZIP archive, such as an Excel workbook", ""),
    (b"SQLite format 3\0", "an SQLite database", ""),
    (b"ORC", "ORC", ""),
    (b"%PDF", "PDF", ""),
)
"""The first bytes, what the file is, and the value of 'format' or 'compression' that reads it."""

_CONTROLS = bytes(set(range(32)) - set(b"\t\r\n"))
_COMPRESSIONS = frozenset({"gz", "zst", "bz2", "lz4"})
_TEXTS = frozenset({"csv", "json", "lines"})
_SPELLED = {"csv": "CSV", "json": "JSON", "lines": "lines of text"} | {
    "parquet": "Parquet",
    "arrow": "Arrow",
    "avro": "Avro",
}


def check_contents(files: Sequence[DataFile], format_name: str, compression: str) -> None:
    """DataError if a file evidently has another format than the one that it is read as."""
    for file in files:
        with reading(file.path):
            start = _start_of(file, format_name, compression)
        found = _found(start, format_name)
        if found is not None:
            raise _other_format(file, format_name, *found)


def _start_of(file: DataFile, format_name: str, compression: str) -> bytes:
    kind = compression if format_name in _TEXTS else "none"
    if compression_of(file.path, kind) is not None and file.size < 4:
        return b""
    with open_bytes(file.path, kind) as stream:
        start: bytes = stream.read(START_BYTES)
        return start


def _found(start: bytes, format_name: str) -> tuple[str, str] | None:
    """The file's other format, and the value of the option; None if there is no sign of one."""
    for mark, what, value in _MARKS:
        if start.startswith(mark) and value != format_name:
            is_text = mark.isalpha() and format_name in _TEXTS and b"\0" not in start
            return None if is_text else (what, value)
    if start[8:12] == b"DUCK" and b"\0" in start:
        return "a DuckDB database", "duckdb"
    head = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if format_name in _TEXTS - {"lines"} and head[:14].lower().startswith((b"<!doctype", b"<html")):
        return "HTML", ""
    if format_name == "csv" and _is_json(head):
        return "JSON", "json"
    if format_name in ("parquet", "avro") and _is_text(start):
        return ("JSON", "json") if _is_json(head) else ("text", "csv")
    return None


def _is_text(start: bytes) -> bool:
    """Whether the start of a file is UTF-8 without control characters."""
    if len(start) < 4 or start.translate(None, _CONTROLS) != start:
        return False
    try:
        start.decode()
    except UnicodeDecodeError as error:
        return len(start) == START_BYTES and error.start > len(start) - 4
    return True


def _is_json(head: bytes) -> bool:
    """Whether the text begins with an object of JSON that has a name, or with an array of them."""
    text = head.removeprefix(b"[").lstrip()
    if not text.startswith(b"{"):
        return False
    try:
        found, _ = json.JSONDecoder().raw_decode(text.decode("utf-8", "replace"))
    except ValueError:
        # The object is longer than the start of the file, which then begins with its first name.
        before, quote, after = text[1:].lstrip().partition(b'"')
        return not before and bool(quote) and after.partition(b'"')[2].lstrip().startswith(b":")
    return isinstance(found, dict) and bool(found)


def _other_format(file: DataFile, format_name: str, what: str, value: str) -> DataError:
    if value == "duckdb":
        hint = "attach its tables: CREATE MAPPING … TYPE DuckDB OPTIONS ('path' = '…')"
    elif value in _COMPRESSIONS:
        hint = f"add OPTIONS ('compression' = '{value}'), or rename the file to end in .{value}"
    elif value:
        hint = f"read it with OPTIONS ('format' = '{value}')"
    else:
        hint = "export it as CSV, JSON or Parquet"
    return DataError(f'file "{file.path}" is {what}, not {_SPELLED[format_name]}', hint=hint)
