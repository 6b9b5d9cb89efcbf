"""JSON lines that differ only in their values, as programs write them: `{"id":1,"name":"x"}` and so
on, each with the same fields in the same order, texts without a backslash and natural numbers.

The values lie between fixed pieces of text, which the first line tells. Where the pieces are in the
others follows from the places of their quotes, found with numpy for all lines at once; that they
are there, byte by byte, is then verified. Lines in which anything is different are left to a JSON
parser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers

_QUOTE, _LINE_FEED, _ZERO = 34, 10, 48
_LARGEST = 1 << 31


class _Layout(NamedTuple):
    """Of a line: the names of its fields, which of them are texts, and the fixed pieces before,
    between and behind their values. The quotes of texts belong to the pieces."""

    names: tuple[str, ...]
    are_texts: tuple[bool, ...]
    pieces: tuple[bytes, ...]


def uniform_columns(data: bytes, wanted: Mapping[str, pa.DataType]) -> dict[str, pa.Array] | None:
    """The fields wanted of lines of valid UTF-8 that are alike, NULL where the lines have none of
    the name; None if the lines are not alike, or a field's values aren't of its type, which must be
    that of text or of whole numbers."""
    if b"\\" in data or not data.endswith(b"}\n") or len(data) >= _LARGEST:
        return None
    layout = _layout(data[: data.index(b"\n")])
    if layout is None:
        return None
    octets = np.frombuffer(data, np.uint8)
    rows = int(np.count_nonzero(octets < 32))
    spans = _spans(octets, rows, layout)
    if spans is None:
        return None
    buffer = pa.py_buffer(data)
    found: dict[str, pa.Array] = {}
    for name, is_text, (starts, ends) in zip(layout.names, layout.are_texts, spans, strict=True):
        if is_text and name not in wanted:
            continue
        values = _texts(buffer, starts, ends)
        if is_text or _are_natural(values, octets[starts]):
            found[name] = values
        else:
            return None
    return _typed(found, layout, wanted, rows)


def _typed(
    found: Mapping[str, pa.Array], layout: _Layout, wanted: Mapping[str, pa.DataType], rows: int
) -> dict[str, pa.Array] | None:
    are_texts = dict(zip(layout.names, layout.are_texts, strict=True))
    columns = {}
    for name, arrow_type in wanted.items():
        values = found.get(name)
        if values is None:
            columns[name] = pa.nulls(rows, arrow_type)
        elif pa.types.is_string(arrow_type) if are_texts[name] else pa.types.is_integer(arrow_type):
            columns[name] = values.cast(arrow_type)
        else:
            return None
    return columns


def _layout(line: bytes) -> _Layout | None:
    """What the first line tells, if the values are texts and natural numbers."""
    try:
        fields = json.loads(line, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return None
    if (
        not isinstance(fields, tuple)
        or not fields
        or len({name for name, _ in fields}) != len(fields)
    ):
        return None
    pieces, at, is_text = [], 0, False
    for name, value in fields:
        if type(value) is not str and (type(value) is not int or value < 0):
            return None
        # After a text its closing quote comes first.
        key = line.index(b'"', at + is_text) + len(name.encode()) + 2
        is_text = type(value) is str
        begin = line.index(b'"', key) + 1 if is_text else key + _gap(line[key:])
        pieces.append(line[at:begin])
        at = begin + len(str(value).encode())
    pieces.append(line[at:] + b"\n")
    return _Layout(
        tuple(name for name, _ in fields),
        tuple(type(value) is str for _, value in fields),
        tuple(pieces),
    )


def _gap(text: bytes) -> int:
    """How long the colon and the blanks before a number are."""
    return len(text) - len(text.lstrip(b": \t"))


def _spans(octets: Numbers, rows: int, layout: _Layout) -> list[tuple[Numbers, Numbers]] | None:
    """Where the values of each field begin and end, if the text is `rows` lines that are all laid
    out like that; `rows` is the number of its control characters."""
    count = sum(piece.count(b'"') for piece in layout.pieces)
    quotes = np.flatnonzero(octets == _QUOTE)
    if len(quotes) != rows * count:
        return None
    # One row per quote of a line, so that each is contiguous.
    places = np.ascontiguousarray(quotes.reshape(rows, count).T)
    at = places[0] - layout.pieces[0].index(b'"')
    line_ends = np.append(at[1:] - 1, len(octets) - 1)
    if at[0] != 0 or (octets[line_ends] != _LINE_FEED).any():
        return None
    seen = 0
    spans = []
    for number, piece in enumerate(layout.pieces):
        if not _is_there(octets, at, piece):
            return None
        seen += piece.count(b'"')
        if number == len(layout.are_texts):
            break
        starts = at + len(piece)
        following = layout.pieces[number + 1]
        before_quote = following.find(b'"')
        ends = places[seen] - before_quote if before_quote >= 0 else line_ends + 1 - len(following)
        if (ends < starts).any():
            return None
        spans.append((starts, ends))
        at = ends
    return spans if (at + len(layout.pieces[-1]) == line_ends + 1).all() else None


def _is_there(octets: Numbers, places: Numbers, piece: bytes) -> bool:
    """Whether the piece stands at all of the places, which ascend from 0 or more."""
    if int(places[-1]) + len(piece) > len(octets):
        return False
    # Elements of the piece's size at every byte: numpy gathers those much faster than rows of
    # bytes.
    windows = np.ndarray((len(octets) - len(piece) + 1,), f"V{len(piece)}", octets, strides=(1,))
    return bool(windows[places].tobytes() == piece * len(places))


def _texts(buffer: pa.Buffer, starts: Numbers, ends: Numbers) -> pa.Array:
    """The texts between places that ascend."""
    rows = len(starts)
    cuts = np.empty(2 * rows, np.int32)
    cuts[0::2] = starts
    cuts[1::2] = ends
    cut = pa.Array.from_buffers(pa.string(), 2 * rows - 1, [None, pa.py_buffer(cuts), buffer])
    return cut.take(from_numbers(np.arange(0, 2 * rows, 2, dtype=np.int64), pa.int64()))


def _are_natural(values: pa.Array, first: Numbers) -> bool:
    """Whether all are digits, without a zero in front (which JSON doesn't allow)."""
    if not pc.all(pc.ascii_is_decimal(values)).as_py():
        return False
    return bool((pc.binary_length(values).to_numpy()[first == _ZERO] == 1).all())
