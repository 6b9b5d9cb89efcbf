"""About how many records text files have, for the planner: told by their sizes and by the start of
a few of them.

A file that fits in the sample is counted. How long the records of a file are is remembered while
its size stays the same, so that planning and starting a statement don't read it each time.
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
"""How much is read of the start of a file."""

SAMPLED_FILES = 4
"""So many files, evenly spread, stand for all of a mapping."""

UNCOMPRESSED = 4
"""Text that is compressed is taken to be so many times as long."""

Counter = Callable[[bytes], int]
"""How many records begin in the text at the start of a file. Called with whole files and with their
starts."""


def estimated_rows(path: FilePath, compression: str, count: Counter) -> int | None:
    """About how many records the files have; None for those behind a URL, and where that can't be
    told. `count` must be the same object for the same way of counting."""
    if isinstance(path.text, RemotePath):
        return None
    try:
        files = path.files()
        step = max(1, -(-len(files) // SAMPLED_FILES))
        sample = files[::step]
        rows = sum(_rows_of(file, compression, count) for file in sample)
    except (Error, OSError, EOFError, pa.ArrowException, ValueError):
        # Asked for only to plan well; reading will report it.
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
    """The lines that begin in a text."""
    return text.count(b"\n") + bool(text and not text.endswith(b"\n"))


def csv_count(text: bytes) -> int:
    """The rows after a header; a quoted line feed counts as an end, since this is an estimate."""
    return max(0, line_count(text) - 1)


def json_count(text: bytes) -> int:
    """The records of lines, or the elements of an array."""
    # Its arrays are cut with numpy, which a process without JSON files doesn't load.
    from runnel.connectors.files.json.json_records import BYTE_ORDER_MARK, ArrayCutter, begins_array

    if not begins_array(text):
        return line_count(text)
    starts: int = len(ArrayCutter("").rewrite(text.removeprefix(BYTE_ORDER_MARK))[1])
    return starts
