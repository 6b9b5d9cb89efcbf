"""JSON lines that differ only in their values, as programs write them: `{"id":1,"name":"x"}` and so
on, each with the same fields in the same order. The values of a field are texts without a
backslash, or numbers, true, false and null.

The values lie between fixed segments of text, which the first line tells. A regular expression made
of the segments verifies all bytes of all lines in one pass. Then every line has the same number of
quotes, so that the offsets of the quotes tell where the values of a field begin and end. Lines in
which anything is different are left to a JSON parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers
from runnel.expressions.kernels.values import scalar_of
from runnel.sqltypes import VARCHAR

_QUOTE = 34
_LARGEST = 1 << 31
_LONGEST_SEGMENTS = 1500
"""The most bytes of all segments of a line. RE2 has a state for each, and from about 3,000 on its
fast automaton does not have enough memory."""
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_NO_TEXT = f"(?:{_NUMBER}|true|false|null)"
_PLAIN_TEXT = r'[^"\\\x00-\x1f]*'


_NULL = scalar_of("null", VARCHAR)
_NO_VALUE = pa.nulls(1, pa.string())[0]


class _Layout(NamedTuple):
    """Of a line: the names of its fields, which of them are texts, and the fixed segments before,
    between and behind their values. The quotes of texts belong to the segments."""

    names: tuple[str, ...]
    are_texts: tuple[bool, ...]
    segments: tuple[bytes, ...]


def uniform_columns(data: bytes, wanted: Mapping[str, pa.DataType]) -> dict[str, pa.Array] | None:
    """The fields wanted of lines of valid UTF-8 that are alike, NULL where the lines have none of
    the name; None if the lines are not alike, or a field has texts where another type is requested,
    or a type that this reader doesn't convert. ArrowInvalid for a value that is not of its type.
    Numbers as text are as they were written."""
    if not data.endswith(b"\n") or len(data) >= _LARGEST:
        return None
    layout = _layout(data[: data.index(b"\n")])
    if layout is None:
        return None
    fields = dict(zip(layout.names, range(len(layout.names)), strict=True))
    for name, arrow_type in wanted.items():
        if name in fields and not (
            pa.types.is_string(arrow_type)
            or (_is_converted(arrow_type) and not layout.are_texts[fields[name]])
        ):
            return None
    if not _are_alike(data, layout):
        return None
    quotes = _quotes(data, layout)
    buffer = pa.py_buffer(data)
    has_null = b"null" in data
    columns = {}
    for name, arrow_type in wanted.items():
        if name in fields:
            values = _texts(buffer, *_span(quotes, layout, fields[name], len(data)))
            if has_null and not layout.are_texts[fields[name]]:
                values = pc.replace_with_mask(values, pc.equal(values, _NULL), _NO_VALUE)
            columns[name] = values.cast(arrow_type)
        else:
            columns[name] = pa.nulls(len(quotes), arrow_type)
    return columns


def _is_converted(arrow_type: pa.DataType) -> bool:
    """Whether Arrow's cast of such a value's text has the result of CAST."""
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_boolean(arrow_type)
    )


def _refused(name: str) -> object:
    raise ValueError(name)


class _Written(str):
    """A number as it is written."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=_Written, parse_float=_Written, parse_constant=_refused
)
_WORDS = {True: "true", False: "false", None: "null"}


def _layout(line: bytes) -> _Layout | None:
    """What the first line tells, if no value is nested."""
    if b"\\" in line:
        return None
    try:
        fields = _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        return None
    if (
        not isinstance(fields, tuple)
        or not fields
        or len({name for name, _ in fields}) != len(fields)
    ):
        return None
    segments, at, is_text = [], 0, False
    for name, value in fields:
        if type(value) is tuple or type(value) is list:
            return None
        # After a text its closing quote comes first.
        key = line.index(b'"', at + is_text) + len(name.encode()) + 2
        is_text = type(value) is str
        begin = line.index(b'"', key) + 1 if is_text else key + _gap(line[key:])
        segments.append(line[at:begin])
        written = value if isinstance(value, str) else _WORDS[value]
        at = begin + len(written.encode())
    segments.append(line[at:] + b"\n")
    if sum(map(len, segments)) > _LONGEST_SEGMENTS:
        return None
    return _Layout(
        tuple(name for name, _ in fields),
        tuple(type(value) is str for _, value in fields),
        tuple(segments),
    )


def _gap(text: bytes) -> int:
    """How long the colon and the blanks before a number are."""
    return len(text) - len(text.lstrip(b": \t"))


def _are_alike(data: bytes, layout: _Layout) -> bool:
    """Whether all lines are laid out like that. The expression is matched against bytes: a segment
    that isn't ASCII is as long as its UTF-8."""
    first, *others = [re.escape(segment.decode()) for segment in layout.segments]
    values = [_PLAIN_TEXT if is_text else _NO_TEXT for is_text in layout.are_texts]
    line = first + "".join(map("".join, zip(values, others, strict=True)))
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)])
    return bool(pc.match_substring_regex(whole, rf"\A(?:{line})*\z")[0].as_py())


def _quotes(data: bytes, layout: _Layout) -> Numbers:
    """The offsets of all quotes, a row per line."""
    offsets = np.flatnonzero(np.frombuffer(data, np.uint8) == _QUOTE)
    return offsets.reshape(-1, sum(segment.count(b'"') for segment in layout.segments))


def _span(quotes: Numbers, layout: _Layout, field: int, size: int) -> tuple[Numbers, Numbers]:
    """Where the values of a field begin and end in a text of `size` bytes."""
    # Example: in `{"n":12,"t":"x"}` the segments are `{"n":`, `,"t":"` and `"}` with the line feed,
    # and the quotes of the line are at 1, 3, 8, 10, 12 and 14. The value of n begins two bytes
    # after the quote at 3, the second of the first segment, and ends a byte before the quote at 8.
    before, following = layout.segments[field], layout.segments[field + 1]
    seen = sum(segment.count(b'"') for segment in layout.segments[: field + 1])
    starts = quotes[:, seen - 1] + (len(before) - before.rindex(b'"'))
    if b'"' in following:
        return starts, quotes[:, seen] - following.index(b'"')
    next_lines = np.append(quotes[1:, 0] - layout.segments[0].index(b'"'), size)
    return starts, next_lines - len(following)


def _texts(buffer: pa.Buffer, starts: Numbers, ends: Numbers) -> pa.Array:
    """The texts between offsets that ascend."""
    rows = len(starts)
    cuts = np.empty(2 * rows, np.int32)
    cuts[0::2] = starts
    cuts[1::2] = ends
    cut = pa.Array.from_buffers(pa.string(), 2 * rows - 1, [None, pa.py_buffer(cuts), buffer])
    return cut.take(from_numbers(np.arange(0, 2 * rows, 2, dtype=np.int64), pa.int64()))
