r"""The matches of a regular expression in a column of texts, found for all rows at once by RE2,
which Arrow contains.

Arrow finds the first match with its groups (`extract_regex_span`), or all matches without them:
`replace_substring_regex` puts marks around the matches, at which the texts are split again. The
groups of later matches are found by matching each match alone, together with the characters before
and after it, on which `^`, `$` and `\\b` depend.
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


class TextColumn:
    """A column of texts without NULLs.

    column: the texts.
    octets: the bytes of the column's buffer.
    starts: the offset in `octets` at which each text begins.
    ends: the offset at which each text ends.
    """

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

    def substrings(self, starts: Numbers, ends: Numbers, valid: Mask | None = None) -> pa.Array:
        """The texts from `starts` to `ends`, offsets in the bytes; NULL where not valid."""
        lengths = ends - starts if valid is None else np.where(valid, ends - starts, 0)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        if offsets[-1] > _LARGEST:
            raise pa.ArrowInvalid("the texts are too long")
        octets = self.octets[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)]
        bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [bitmap, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(octets)]
        return pa.Array.from_buffers(pa.string(), len(lengths), buffers)

    def characters_before(self, rows: Numbers, positions: Numbers) -> Numbers:
        """The number of characters of each row before a byte offset in it."""
        # A byte begins a character unless it is a continuation byte, 10xxxxxx.
        begun = np.concatenate(([0], np.cumsum((self.octets & 0xC0) != 0x80)))
        answer: Numbers = begun[positions] - begun[self.starts[rows]]
        return answer


_LARGEST = 2**31 - 1
"""The largest offset in an Arrow text column."""


class Matches(NamedTuple):
    """Matches, or one group of each match, in the order of rows and offsets.

    rows: the row of each match.
    starts: the byte offset at which each match begins.
    ends: the byte offset at which each match ends.
    valid: which matches have the group; None if all have it.
    """

    rows: Numbers
    starts: Numbers
    ends: Numbers
    valid: Mask | None = None

    def chosen(self, flags: Mask) -> Matches:
        valid = None if self.valid is None else self.valid[flags]
        return Matches(self.rows[flags], self.starts[flags], self.ends[flags], valid)


def first_matches(texts: TextColumn, regex: Regex) -> list[Matches]:
    """The first match of each row that has one, and its groups."""
    spans = pc.extract_regex_span(texts.column, f"(?P<g0>{regex.named})")
    found = valid_flags(spans)
    rows = np.arange(len(spans)) if found is None else np.flatnonzero(found)
    return _groups(spans, rows, rows, texts.starts[rows])


def _groups(
    spans: pa.StructArray, chosen: Numbers, rows: Numbers, origins: Numbers
) -> list[Matches]:
    """The spans of some of the searched texts, by group.

    chosen: the indexes of the texts in `spans`.
    rows: the row numbers of these texts.
    origins: the offsets at which these texts begin.
    """
    groups = []
    for index in range(spans.type.num_fields):
        field = spans.field(index)
        pairs = numbers(field.values, np.int32).reshape(-1, 2)[chosen].astype(np.int64)
        valid = valid_flags(field)
        starts = origins + pairs[:, 0]
        groups.append(
            Matches(rows, starts, starts + pairs[:, 1], None if valid is None else valid[chosen])
        )
    return groups


def all_matches(texts: TextColumn, regex: Regex, start: int = 1) -> Matches:
    """All matches that don't overlap, from the `start`-th character on; assertions see the
    character before it.
    """
    if not len(texts.column):
        none = np.zeros(0, np.int64)
        return Matches(none, none, none)
    if start == 1:
        return _with_nothings(_marked(texts, regex.pattern), regex)
    rest = TextColumn(pc.utf8_slice_codeunits(texts.column, start - 2))
    # The search includes the character before the start, for `^` and `\\b`. That character is
    # matched first, and its match is dropped.
    found = _marked(rest, f"\\A(?s:.)|{regex.named}")
    found = _with_nothings(found, regex)
    has_start = rest.ends > rest.starts
    is_first = np.concatenate(([True], found.rows[1:] != found.rows[:-1]))[: len(found.rows)]
    found = found.chosen(has_start[found.rows] & ~is_first)
    shift = (texts.ends - rest.ends)[found.rows]
    return Matches(found.rows, found.starts + shift, found.ends + shift)


# For the texts 'a1b22' and 'c', and the pattern [0-9]+ (the mark is written | here):
#     marked    ['a|1|b|22|', 'c']
#     cut       [['a', '1', 'b', '22', ''], ['c']]
#     ends      [1, 2, 3, 5, 5, 6]  offsets in the unmarked bytes
#     counts    [5, 1]              segments of each text
#     owners    [0, 0, 0, 0, 0, 1]
#     position  [0, 1, 2, 3, 4, 0]  of a segment in its text: the odd ones are matches
#     result    rows [0, 0], starts [1, 3], ends [2, 5]
def _marked(texts: TextColumn, pattern: str) -> Matches:
    """The matches that Arrow's replacement finds."""
    mark = _unused(texts.column)
    marked = pc.replace_substring_regex(texts.column, pattern, f"{mark}\\0{mark}")
    cut = pc.split_pattern(marked, mark)
    segments = cut.flatten()
    ends = np.cumsum(_lengths(segments)) + (texts.starts[0] if len(texts.starts) else 0)
    counts = numbers(pc.list_value_length(cut), np.int32).astype(np.int64)
    owners = np.repeat(np.arange(len(counts)), counts)
    position = np.arange(len(ends)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_match = position % 2 == 1
    return Matches(owners[is_match], (ends - _lengths(segments))[is_match], ends[is_match])


def _lengths(column: pa.Array) -> Numbers:
    return numbers(pc.binary_length(column), np.int32).astype(np.int64)


def _unused(column: pa.Array) -> str:
    """A mark that no text contains.

    Its first character occurs only once in it, so that no further mark arises where it meets the
    text.
    """
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


# For the text 'ab' and the pattern a*, whose matches are 'a' at 0 to 1 and an empty one at 2:
#     following  [2, −1]  the start of the match after each
#     is_last    [F, T]
#     has_gap    [T, F]   the match ends at 1, but no match begins there
#     where      [1]      an empty match at 1 is inserted after it
def _with_nothings(found: Matches, regex: Regex) -> Matches:
    """The matches with the empty matches directly after a match, which RE2's replacement leaves
    out.

    A pattern without assertions that matches the empty text does so at every position.
    """
    if regex.has_assertions or not _matches_nothing(regex.pattern):
        return found
    following = np.concatenate((found.starts[1:], [-1]))
    is_last = np.concatenate((found.rows[1:] != found.rows[:-1], [True]))[: len(found.rows)]
    has_gap = (found.ends > found.starts) & (is_last | (following[: len(found.rows)] != found.ends))
    where = np.flatnonzero(has_gap) + 1
    return Matches(
        np.insert(found.rows, where, found.rows[has_gap]),
        np.insert(found.starts, where, found.ends[has_gap]),
        np.insert(found.ends, where, found.ends[has_gap]),
    )


def _matches_nothing(pattern: str) -> bool:
    return bool(pc.match_substring_regex(_NOTHING, pattern)[0].as_py())


_NOTHING = pack([""], VARCHAR)


def groups_of(texts: TextColumn, found: Matches, regex: Regex) -> list[Matches]:
    """The matches themselves, and their groups."""
    if not regex.groups:
        return [found]
    has_before, has_next = (
        found.starts > texts.starts[found.rows],
        found.ends < texts.ends[found.rows],
    )
    starts, ends = _widened(texts.octets, found, has_before, has_next)
    begins, stops = (
        [np.zeros(len(starts), np.int64) for _ in range(regex.groups)] for _ in range(2)
    )
    flags = [np.zeros(len(starts), np.bool_) for _ in range(regex.groups)]
    for before in (False, True):
        for following in (False, True):
            chosen = np.flatnonzero((has_before == before) & (has_next == following))
            if not len(chosen):
                continue
            around = f"\\A{'(?s:.)' * before}(?P<g0>{regex.named}){'(?s:.)' * following}\\z"
            spans = pc.extract_regex_span(texts.substrings(starts[chosen], ends[chosen]), around)
            groups = _groups(spans, np.arange(len(chosen)), found.rows[chosen], starts[chosen])[1:]
            for index, group in enumerate(groups):
                begins[index][chosen], stops[index][chosen] = group.starts, group.ends
                flags[index][chosen] = True if group.valid is None else group.valid
    return [
        found,
        *(Matches(found.rows, *columns) for columns in zip(begins, stops, flags, strict=True)),
    ]


def _widened(
    octets: Numbers, found: Matches, has_before: Mask, has_next: Mask
) -> tuple[Numbers, Numbers]:
    """The matches with one more character on each side, where there is one."""
    # A character of UTF-8 has at most three continuation bytes (10xxxxxx), so each side moves by
    # one byte and then over at most three of these.
    starts, ends = found.starts - has_before, found.ends + has_next
    for _ in range(3):
        starts = (
            starts - (has_before & ((octets[np.minimum(starts, len(octets) - 1)] & 0xC0) == 0x80))
            if len(octets)
            else starts
        )
    for _ in range(3):
        inside = has_next & (ends < len(octets))
        inside[inside] = (octets[ends[inside]] & 0xC0) == 0x80
        ends = ends + inside
    return starts, ends


# For matches of the rows [0, 0, 2] and number = 2:
#     begins  [0, 2]  the first match of each row
#     counts  [2, 1]  matches of each row that has any
#     chosen  [F, T, F]
def nth_per_row(found: Matches, number: int) -> Matches:
    """The `number`-th match of each row that has as many."""
    if not len(found.rows):
        return found
    begins = np.flatnonzero(np.concatenate(([True], found.rows[1:] != found.rows[:-1])))
    counts = np.diff(np.concatenate((begins, [len(found.rows)])))
    chosen = np.zeros(len(found.rows), np.bool_)
    chosen[begins[counts >= number] + number - 1] = True
    return found.chosen(chosen)


# For the text 'a1b' (bytes 0 to 3) and 'c' (3 to 4) with a match at 1 to 2:
#     rows     [0, 0, 1]  of the match, and of the ends of both texts
#     order    [0, 1, 2]  by row; a match comes before the end of its text
#     ends     [1, 3, 4]  a substring ends at each match and at the end of the text
#     starts   [0, 2, 3]  and begins at the start of the text and after each match
#     offsets  [0, 2, 3]  text 0 has two substrings, text 1 has one: [['a', 'b'], ['c']]
def split_at(texts: TextColumn, found: Matches) -> pa.Array:
    """The texts between matches, as arrays.

    An empty match counts only inside a text, and not directly after another match.
    """
    previous = np.concatenate(([-1], found.ends[:-1]))[: len(found.ends)]
    is_empty = found.starts == found.ends
    is_edge = (
        (found.starts == texts.starts[found.rows])
        | (found.starts == texts.ends[found.rows])
        | (previous == found.starts)
    )
    found = found.chosen(~(is_empty & is_edge))
    rows = np.concatenate((found.rows, np.arange(len(texts.starts))))
    order = np.argsort(rows, kind="stable")
    ends = np.concatenate((found.starts, texts.ends))[order]
    heads = np.argsort(np.concatenate((np.arange(len(texts.starts)), found.rows)), kind="stable")
    starts = np.concatenate((texts.starts, found.ends))[heads]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(texts.starts)))))
    return pa.ListArray.from_arrays(
        from_numbers(offsets.astype(np.int32), pa.int32()), texts.substrings(starts, ends)
    )


def scattered(values: pa.Array, rows: Numbers, count_of_rows: int) -> pa.Array:
    """A column with a value for some rows, and NULL for the other rows."""
    taken = np.zeros(count_of_rows, np.int64)
    taken[rows] = np.arange(len(rows))
    has_value = np.zeros(count_of_rows, np.bool_)
    has_value[rows] = True
    return values.take(indexes(taken, has_value))
