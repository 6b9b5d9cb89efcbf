"""Cutting JSON text into chunks of whole records, one to a line: what Arrow's JSON reader takes.

Text that holds an object to a line is cut at line ends. Of objects written on several lines,
line feeds inside turn into spaces. An array of objects becomes such text: the
commas between its elements turn into line feeds, and line feeds inside its elements into spaces.
Where those are is found with numpy from the positions of quotes, brackets and backslashes; nothing
is parsed twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runnel.errors import DataError, OperationalError

if TYPE_CHECKING:
    import numpy.typing as npt

CHUNK_BYTES = 1 << 20
LONGEST_RECORD = 1 << 30
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_QUOTE, _BACKSLASH, _LINE_FEED, _COMMA, _SPACE = 34, 92, 10, 44, 32
_OPENING = (0x7B, 0x5B)
_CLOSING = (0x7D, 0x5D)


def _depth_steps() -> npt.NDArray[np.int8]:
    steps = np.zeros(256, np.int8)
    steps[list(_OPENING)] = 1
    steps[list(_CLOSING)] = -1
    return steps


_STEPS = _depth_steps()
_MARKS = _STEPS != 0
_MARKS[[_QUOTE, _BACKSLASH, _LINE_FEED, _COMMA]] = True


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole records, one to a line; lines may be blank. `is_open`: the file ends here, and its last
    record may not be whole.
    `is_cut`: it isn't, since the array around it has no end."""

    data: bytes
    is_open: bool = False
    is_cut: bool = False


def record_chunks(
    stream: pa.NativeFile, path: str, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Chunk]:
    """The records of a JSON file, chunk by chunk."""
    first = _start(stream, chunk_bytes)
    cutter = _cutter(first, path)
    rest: list[bytes] = []
    block = first
    while block:
        following = stream.read(chunk_bytes)
        text = block if cutter is None else cutter.rewrite(block)[0]
        cut = text.rfind(b"\n") + 1 if following else len(text)
        if cut or not following:
            data = b"".join([*rest, text[:cut]])
            rest = [text[cut:]]
            is_cut = not following and cutter is not None and not cutter.has_ended
            if _NOT_BLANK.search(data) or is_cut:
                is_open = is_cut or not (following or cutter or data.endswith(b"\n"))
                yield Chunk(data, is_open, is_cut)
        else:
            rest.append(text)
            if sum(map(len, rest)) > LONGEST_RECORD:
                raise OperationalError(f'file "{path}" has a record of more than 1 GiB')
        block = following


def line_of_record(stream: pa.NativeFile, path: str, record: int) -> int | None:
    """The line on which a record starts. Reads the file again: only done to report an error."""
    block = _start(stream, CHUNK_BYTES)
    cutter = _cutter(block, path)
    if cutter is not None:
        return _line_of_element(block, stream, cutter, record)
    line, seen = 1, -1
    rest = b""
    while block:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for text in lines:
            seen += bool(text.strip(_BLANK))
            if seen == record:
                return line
            line += 1
        block = stream.read(CHUNK_BYTES)
    return line if rest.strip(_BLANK) and seen + 1 == record else None


def _line_of_element(
    block: bytes, stream: pa.NativeFile, cutter: ArrayCutter, record: int
) -> int | None:
    line = 1
    while block:
        starts = cutter.rewrite(block)[1]
        if record < len(starts):
            start = int(starts[record]) + 1
            after = block[start:] + stream.read(CHUNK_BYTES)
            blank = after[: len(after) - len(after.lstrip(_BLANK))]
            found: int = line + block.count(b"\n", 0, start) + blank.count(b"\n")
            return found
        record -= len(starts)
        line += block.count(b"\n")
        block = stream.read(CHUNK_BYTES)
    return None


def _start(stream: pa.NativeFile, chunk_bytes: int) -> bytes:
    """The first block with anything in it."""
    block: bytes = stream.read(max(chunk_bytes, len(BYTE_ORDER_MARK))).removeprefix(BYTE_ORDER_MARK)
    while not block.strip(_BLANK):
        more = stream.read(chunk_bytes)
        if not more:
            break
        block += more
    return block


def _cutter(block: bytes, path: str) -> ArrayCutter | None:
    """The cutter of a file that begins with the block; None if the file has a record per line."""
    if begins_array(block):
        return ArrayCutter(path)
    first = block.lstrip(_BLANK).partition(b"\n")[0]
    if not first.startswith(b"{"):
        return None
    cutter = ObjectCutter(path)
    cutter.rewrite(first)
    # The first line of an object on several lines ends within brackets.
    return None if cutter.has_ended or cutter.is_in_string else ObjectCutter(path)


def begins_array(text: bytes) -> bool:
    """Whether the start of a file begins an array."""
    return text.removeprefix(BYTE_ORDER_MARK).lstrip(_BLANK).startswith(b"[")


class ArrayCutter:
    """Turns an array of records into lines of records, block by block. It knows where it is: how
    deep in brackets, whether inside a string, and whether the next character is escaped."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._depth = 0
        self._in_string = False
        self._is_escaped = False
        self._is_after_element = False
        self._line = 1
        self.has_ended = False

    def rewrite(self, block: bytes) -> tuple[bytes, npt.NDArray[np.int64]]:
        """The block as lines (as long as before), and the places after which a new element
        starts."""
        if self.has_ended:
            self._check_end(block)
            return block, np.zeros(0, np.int64)
        characters = np.frombuffer(block, np.uint8)
        places, marks, outside, steps, depths = self._brackets(block, characters)
        opening = outside & (steps == 1) & (depths == 1)
        commas = outside & (marks == _COMMA) & (depths == 1)
        closing = outside & (steps == -1) & (depths == 0)
        self._check_commas(block, places, outside & (steps == 1) & (depths == 2), commas)
        text = characters.copy()
        text[places[outside & (marks == _LINE_FEED)]] = _SPACE
        text[places[commas]] = _LINE_FEED
        text[places[opening | closing]] = _SPACE
        ends = places[closing]
        if len(ends):
            self.has_ended = True
            self._check_end(block[int(ends[0]) + 1 :])
        return text.tobytes(), places[opening | commas]

    def _brackets(
        self, block: bytes, characters: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[Any], ...]:
        """The positions of marks, the marks, whether each is outside strings, its step in or out
        of brackets, and the depth after it."""
        places = np.flatnonzero(_MARKS[characters])
        marks = characters[places]
        quotes = self._quotes(block, places, marks)
        outside = (np.cumsum(quotes) + self._in_string) % 2 == 0
        self._in_string = bool((np.count_nonzero(quotes) + self._in_string) % 2)
        steps = np.where(outside, _STEPS[marks], 0)
        depths = np.cumsum(steps, dtype=np.int64) + self._depth
        if len(depths):
            self._depth = int(depths[-1])
        return places, marks, outside, steps, depths

    @property
    def is_in_string(self) -> bool:
        """Whether the text so far ends within a string."""
        return self._in_string

    def _check_commas(
        self,
        block: bytes,
        places: npt.NDArray[np.int64],
        elements: npt.NDArray[np.bool_],
        commas: npt.NDArray[np.bool_],
    ) -> None:
        """Between the starts of two elements there must be a comma."""
        both = elements | commas
        starts = elements[both]
        follows = np.concatenate(([self._is_after_element], starts))
        wrong = np.flatnonzero(starts & follows[:-1])
        if len(wrong):
            line = self._line + block.count(b"\n", 0, int(places[both][wrong[0]]))
            raise DataError(
                f'file "{self._path}" lacks a comma between two elements of its array',
                detail=f"the second one starts on line {line}",
                hint="a JSON file holds one object a line, or one array of objects",
            )
        self._is_after_element = bool(follows[-1])
        self._line += block.count(b"\n")

    def _quotes(
        self, block: bytes, places: npt.NDArray[np.int64], marks: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.bool_]:
        """Which marks are quotes that begin or end a string: those that no backslash escapes."""
        quotes: npt.NDArray[np.bool_] = marks == _QUOTE
        was_escaped, self._is_escaped = self._is_escaped, False
        if not was_escaped and b"\\" not in block:
            return quotes
        slashes = places[marks == _BACKSLASH]
        if was_escaped:
            # The first character is escaped: it neither escapes nor ends anything.
            slashes = slashes[slashes != 0]
            quotes &= places != 0
        if not len(slashes):
            return quotes
        # In a run of backslashes every second one is itself escaped: what follows a run of odd
        # length is escaped.
        is_first = np.diff(slashes, prepend=-2) != 1
        firsts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(firsts, len(slashes)))
        after = slashes[firsts] + lengths
        escaped = after[lengths % 2 == 1]
        self._is_escaped = bool(len(escaped)) and int(escaped[-1]) == len(block)
        quotes &= ~np.isin(places, escaped)
        return quotes

    def _check_end(self, block: bytes) -> None:
        if block.strip(_BLANK):
            raise DataError(
                f'file "{self._path}" goes on after the end of its array',
                hint="a JSON file holds one array, or one object a line",
            )


class ObjectCutter(ArrayCutter):
    """Turns objects that are written on several lines into lines of records, block by block."""

    def rewrite(self, block: bytes) -> tuple[bytes, npt.NDArray[np.int64]]:
        """The block as lines (as long as before), and the positions before the objects."""
        characters = np.frombuffer(block, np.uint8)
        places, marks, outside, steps, depths = self._brackets(block, characters)
        text = characters.copy()
        text[places[outside & (marks == _LINE_FEED) & (depths > 0)]] = _SPACE
        self.has_ended = self._depth == 0
        return text.tobytes(), places[(steps == 1) & (depths == 1)] - 1
