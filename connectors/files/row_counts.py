"""Estimates the number of records of text files for the planner, from sizes and a sample.

A file that fits in the sample is counted. The estimate of a file is cached while its size stays the
same, so that planning and starting a statement do not read the file each time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from runnel.connectors.files.options import CODECS, compression_of
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.storage import DataFile, RemotePath, opened
from runnel.errors import Error

SAMPLE_BYTES = 64 << 10
"""How many bytes are read from the start of a file."""

SAMPLED_FILES = 4
"""The number of files, evenly spread, in the sample."""

UNCOMPRESSED = 4
"""The assumed ratio of the length of a text to its compressed length."""

Counter = Callable[[bytes], int]
"""Counts the records that begin in the text at the start of a file; also called with whole files.
"""


def estimated_rows(path: FilePath, compression: str, count: Counter) -> int | None:
    """The approximate number of records of the files; None for a URL, or if it cannot be estimated.

    `count` must be the same object for the same way of counting, since it is a key of the cache.
    """
    if isinstance(path.text, RemotePath):
        return None
    try:
        files = path.files()
        step = max(1, -(-len(files) // SAMPLED_FILES))
        sample = files[::step]
        rows = sum(_rows_of(file, compression, count) for file in sample)
    except (Error, OSError, EOFError, pa.ArrowException, ValueError):
        # Only the plan's quality depends on this. Reading will report the error.
        return None
    if step == 1:
        return rows
    sampled = sum(file.size for file in sample)
    return round(rows * sum(file.size for file in files) / sampled) if sampled else 0


@lru_cache(maxsize=4096)
def _rows_of(file: DataFile, compression: str, count: Counter) -> int:
    with opened(file.path) as stored:
        kind = compression_of(file.path, compression)
        stream = stored if kind is None else pa.CompressedInputStream(stored, CODECS[kind])
        start = stream.read(SAMPLE_BYTES)
    rows = count(start)
    if len(start) < SAMPLE_BYTES:
        return rows
    size = file.size if kind is None else UNCOMPRESSED * file.size
    return round(rows * max(1.0, size / len(start)))


def line_count(text: bytes) -> int:
    """The number of lines that begin in a text."""
    return text.count(b"\n") + bool(text and not text.endswith(b"\n"))


def csv_count(text: bytes) -> int:
    """The number of rows after a header; a quoted line feed counts as an end, as this is an
    estimate."""
    return max(0, line_count(text) - 1)


def json_count(text: bytes) -> int:
    """The number of records, one per line, or of the elements of an array."""
    # ArrayCutter uses numpy, which a process without JSON files does not load.
    from runnel.connectors.files.json.json_records import BYTE_ORDER_MARK, ArrayCutter, begins_array

    if not begins_array(text):
        return line_count(text)
    starts: int = len(ArrayCutter("").rewrite(text.removeprefix(BYTE_ORDER_MARK))[1])
    return starts
