"""Where regular expressions match in a column of texts, worked out for all rows at once by RE2,
which Arrow brings.

Arrow finds the first match with its groups (`extract_regex_span`), or all matches without them:
`replace_substring_regex` puts marks around them, at which the texts are cut again. The groups of a
match that isn't the first are found in the match alone, with the character before and the one
behind it, on which `^`, `$` and `\\b` depend.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Mask, Numbers, from_numbers, indexes, numbers
from runnel.columns.batches import validity as valid_flags
from runnel.expressions.kernels.buffers import pack
from runnel.expressions.text.regex_syntax import Regex
from runnel.sqltypes import VARCHAR

if TYPE_CHECKING:
    import numpy.typing as npt


class Texts:
    """A column of texts without NULL: all bytes, and where each text begins; `ends[i]` is behind
    the i-th."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column
        offsets = np.zeros(1, np.int64)
        if len(column):
            offsets = np.frombuffer(
                column.buffers()[1], np.int32, len(column) + 1, column.offset * 4
            ).astype(np.int64)
        self.starts, self.ends = offsets[:-1], offsets[1:]
        buffer = column.buffers()[2]
        self.octets: npt.NDArray[np.uint8] = (
            np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
        )

    def pieces(self, starts: Numbers, ends: Numbers, valid: Mask | None = None) -> pa.Array:
        """The texts between places in the bytes."""
        lengths = ends - starts if valid is None else np.where(valid, ends - starts, 0)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        if offsets[-1] > _LARGEST:
            raise pa.ArrowInvalid("the texts are too long")
        octets = self.octets[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)]
        bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [bitmap, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(octets)]
        return pa.Array.from_buffers(pa.string(), len(lengths), buffers)

    def characters_before(self, rows: Numbers, places: Numbers) -> Numbers:
        """How many characters lie before places in the bytes of some rows."""
        begun = np.concatenate(([0], np.cumsum((self.octets & 0xC0) != 0x80)))
        answer: Numbers = begun[places] - begun[self.starts[rows]]
        return answer


_LARGEST = 2**31 - 1


class Places(NamedTuple):
    """Matches, or one group of them, by row and place: the number of the row, and where they begin
    and end in the bytes."""

    rows: Numbers
    starts: Numbers
    ends: Numbers
    valid: Mask | None = None

    def chosen(self, flags: Mask) -> Places:
        valid = None if self.valid is None else self.valid[flags]
        return Places(self.rows[flags], self.starts[flags], self.ends[flags], valid)


def first_matches(texts: Texts, regex: Regex) -> list[Places]:
    """The first match of each row that has one, and its groups."""
    spans = pc.extract_regex_span(texts.column, f"(?P<g0>{regex.named})")
    found = valid_flags(spans)
    rows = np.arange(len(spans)) if found is None else np.flatnonzero(found)
    return _groups(spans, rows, rows, texts.starts[rows])


def _groups(
    spans: pa.StructArray, chosen: Numbers, rows: Numbers, origins: Numbers
) -> list[Places]:
    """The spans of some of the texts searched, as places: `origins` is where these texts begin."""
    places = []
    for index in range(spans.type.num_fields):
        field = spans.field(index)
        pairs = numbers(field.values, np.int32).reshape(-1, 2)[chosen].astype(np.int64)
        valid = valid_flags(field)
        starts = origins + pairs[:, 0]
        places.append(
            Places(rows, starts, starts + pairs[:, 1], None if valid is None else valid[chosen])
        )
    return places


def all_matches(texts: Texts, regex: Regex, start: int = 1) -> Places:
    """All matches that don't overlap, from the `start`-th character on, which is searched with what
    stands before it."""
    if not len(texts.column):
        nothing = np.zeros(0, np.int64)
        return Places(nothing, nothing, nothing)
    if start == 1:
        return _with_nothings(_marked(texts, regex.pattern), regex)
    rest = Texts(pc.utf8_slice_codeunits(texts.column, start - 2))
    # The character before the first one searched is taken for a match, which is left out again.
    found = _marked(rest, f"\\A(?s:.)|{regex.named}")
    found = _with_nothings(found, regex)
    has_start = rest.ends > rest.starts
    is_first = np.concatenate(([True], found.rows[1:] != found.rows[:-1]))[: len(found.rows)]
    found = found.chosen(has_start[found.rows] & ~is_first)
    shift = (texts.ends - rest.ends)[found.rows]
    return Places(found.rows, found.starts + shift, found.ends + shift)


def _marked(texts: Texts, pattern: str) -> Places:
    mark = _unused(texts.column)
    marked = pc.replace_substring_regex(texts.column, pattern, f"{mark}\\0{mark}")
    cut = pc.split_pattern(marked, mark)
    pieces = cut.flatten()
    ends = np.cumsum(_lengths(pieces)) + (texts.starts[0] if len(texts.starts) else 0)
    counts = numbers(pc.list_value_length(cut), np.int32).astype(np.int64)
    owners = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(ends)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_match = place % 2 == 1
    return Places(owners[is_match], (ends - _lengths(pieces))[is_match], ends[is_match])


def _lengths(column: pa.Array) -> Numbers:
    return numbers(pc.binary_length(column), np.int32).astype(np.int64)


def _unused(column: pa.Array) -> str:
    """A mark that no text has: it begins with a character that comes only once in it, so that none
    arises at its sides."""
    marks = ("\x00", "\x01", *(f"\ue000{number}\ue001" for number in range(1000)))
    for mark in marks:
        if not pc.any(pc.match_substring(column, mark)).as_py():
            return mark
    return next(
        mark
        for mark in (f"\ue000{number}\ue001" for number in count(1000))
        if _is_free(column, mark)
    )


def _is_free(column: pa.Array, mark: str) -> bool:
    return not pc.any(pc.match_substring(column, mark)).as_py()


def _with_nothings(found: Places, regex: Regex) -> Places:
    """With the matches of nothing right behind a match, which RE2's replacing leaves out: an
    expression that asks nothing of its surroundings and can match nothing does so everywhere."""
    if regex.has_assertions or not _matches_nothing(regex.pattern):
        return found
    following = np.concatenate((found.starts[1:], [-1]))
    is_last = np.concatenate((found.rows[1:] != found.rows[:-1], [True]))[: len(found.rows)]
    has_gap = (found.ends > found.starts) & (is_last | (following[: len(found.rows)] != found.ends))
    where = np.flatnonzero(has_gap) + 1
    return Places(
        np.insert(found.rows, where, found.rows[has_gap]),
        np.insert(found.starts, where, found.ends[has_gap]),
        np.insert(found.ends, where, found.ends[has_gap]),
    )


def _matches_nothing(pattern: str) -> bool:
    return bool(pc.match_substring_regex(_NOTHING, pattern)[0].as_py())


_NOTHING = pack([""], VARCHAR)


def groups_of(texts: Texts, found: Places, regex: Regex) -> list[Places]:
    """The matches themselves, and their groups."""
    if not regex.groups:
        return [found]
    has_before, has_behind = (
        found.starts > texts.starts[found.rows],
        found.ends < texts.ends[found.rows],
    )
    starts, ends = _widened(texts.octets, found, has_before, has_behind)
    begins, stops = (
        [np.zeros(len(starts), np.int64) for _ in range(regex.groups)] for _ in range(2)
    )
    flags = [np.zeros(len(starts), np.bool_) for _ in range(regex.groups)]
    for before in (False, True):
        for behind in (False, True):
            chosen = np.flatnonzero((has_before == before) & (has_behind == behind))
            if not len(chosen):
                continue
            around = f"\\A{'(?s:.)' * before}(?P<g0>{regex.named}){'(?s:.)' * behind}\\z"
            spans = pc.extract_regex_span(texts.pieces(starts[chosen], ends[chosen]), around)
            parts = _groups(spans, np.arange(len(chosen)), found.rows[chosen], starts[chosen])[1:]
            for group, part in enumerate(parts):
                begins[group][chosen], stops[group][chosen] = part.starts, part.ends
                flags[group][chosen] = True if part.valid is None else part.valid
    return [
        found,
        *(Places(found.rows, *parts) for parts in zip(begins, stops, flags, strict=True)),
    ]


def _widened(
    octets: Numbers, found: Places, has_before: Mask, has_behind: Mask
) -> tuple[Numbers, Numbers]:
    """The places with a character more on each side, where there is one."""
    starts, ends = found.starts - has_before, found.ends + has_behind
    for _ in range(3):
        starts = (
            starts - (has_before & ((octets[np.minimum(starts, len(octets) - 1)] & 0xC0) == 0x80))
            if len(octets)
            else starts
        )
    for _ in range(3):
        inside = has_behind & (ends < len(octets))
        inside[inside] = (octets[ends[inside]] & 0xC0) == 0x80
        ends = ends + inside
    return starts, ends


def nth_per_row(found: Places, number: int) -> Places:
    """The `number`-th match of each row that has so many."""
    if not len(found.rows):
        return found
    begins = np.flatnonzero(np.concatenate(([True], found.rows[1:] != found.rows[:-1])))
    counts = np.diff(np.concatenate((begins, [len(found.rows)])))
    chosen = np.zeros(len(found.rows), np.bool_)
    chosen[begins[counts >= number] + number - 1] = True
    return found.chosen(chosen)


def split_at(texts: Texts, found: Places) -> pa.Array:
    """The texts between matches, as arrays. A match of nothing counts only inside a text and not
    right behind another match."""
    behind = np.concatenate(([-1], found.ends[:-1]))[: len(found.ends)]
    is_nothing = found.starts == found.ends
    is_edge = (
        (found.starts == texts.starts[found.rows])
        | (found.starts == texts.ends[found.rows])
        | (behind == found.starts)
    )
    found = found.chosen(~(is_nothing & is_edge))
    rows = np.concatenate((found.rows, np.arange(len(texts.starts))))
    order = np.argsort(rows, kind="stable")
    ends = np.concatenate((found.starts, texts.ends))[order]
    heads = np.argsort(np.concatenate((np.arange(len(texts.starts)), found.rows)), kind="stable")
    starts = np.concatenate((texts.starts, found.ends))[heads]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(texts.starts)))))
    return pa.ListArray.from_arrays(
        from_numbers(offsets.astype(np.int32), pa.int32()), texts.pieces(starts, ends)
    )


def scattered(values: pa.Array, rows: Numbers, count_of_rows: int) -> pa.Array:
    """A column with a value for some rows, and NULL for the others."""
    taken = np.zeros(count_of_rows, np.int64)
    taken[rows] = np.arange(len(rows))
    has_value = np.zeros(count_of_rows, np.bool_)
    has_value[rows] = True
    return values.take(indexes(taken, has_value))
