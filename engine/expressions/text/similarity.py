"""Distances between texts and their similarity, with the definitions of DuckDB."""

from __future__ import annotations

from functools import partial

from runnel.errors import DataError
from runnel.expressions.function import always_may_fail
from runnel.expressions.signature import by_value
from runnel.sqltypes import BIGINT, DOUBLE, VARCHAR

_LONGEST = 100_000_000
"""The largest permitted product of two lengths."""
_PREFIX = 4
"""The number of first characters that Jaro-Winkler counts."""


def _hamming(left: str, right: str) -> int:
    if len(left) != len(right) or not left:
        raise DataError(
            "HAMMING needs two texts of the same length, at least 1",
            hint="for texts of other lengths use LEVENSHTEIN",
        )
    return sum(first != second for first, second in zip(left, right, strict=True))


def _jaccard(left: str, right: str) -> float:
    """The share of the characters of either text that both have."""
    if not left or not right:
        raise DataError("JACCARD needs two texts that are not empty")
    first, second = set(left), set(right)
    return len(first & second) / len(first | second)


def _jaro(left: str, right: str) -> float:
    _check_size(left, right, "JARO_SIMILARITY")
    reach = max(max(len(left), len(right)) // 2 - 1, 0)
    is_matched = [False] * len(right)
    matches: list[str] = []
    for at, character in enumerate(left):
        for other in range(max(at - reach, 0), min(at + reach + 1, len(right))):
            if not is_matched[other] and right[other] == character:
                is_matched[other] = True
                matches.append(character)
                break
    if not matches:
        return 0.0
    others = [character for at, character in enumerate(right) if is_matched[at]]
    moved = sum(first != second for first, second in zip(matches, others, strict=True)) // 2
    count = len(matches)
    return (count / len(left) + count / len(right) + (count - moved) / count) / 3


def _jaro_winkler(left: str, right: str) -> float:
    similarity = _jaro(left, right)
    common = 0
    for first, second in zip(left[:_PREFIX], right[:_PREFIX], strict=False):
        if first != second:
            break
        common += 1
    return similarity + common * 0.1 * (1 - similarity) if similarity > 0.7 else similarity


def _damerau(left: str, right: str) -> int:
    """The number of insertions, deletions, replacements and swaps of neighbours."""
    _check_size(left, right, "DAMERAU_LEVENSHTEIN")
    most = len(left) + len(right)
    table = [[most] * (len(right) + 2) for _ in range(len(left) + 2)]
    for row in range(len(left) + 1):
        table[row + 1][1] = row
    for column in range(len(right) + 1):
        table[1][column + 1] = column
    last_row: dict[str, int] = {}
    for row, first in enumerate(left, 1):
        last_column = 0
        for column, second in enumerate(right, 1):
            before_row, before_column = last_row.get(second, 0), last_column
            if first == second:
                last_column = column
            swapped = (
                table[before_row][before_column]
                + (row - before_row - 1)
                + 1
                + (column - before_column - 1)
            )
            table[row + 1][column + 1] = min(
                table[row][column] + (first != second),
                table[row + 1][column] + 1,
                table[row][column + 1] + 1,
                swapped,
            )
        last_row[first] = row
    return table[-1][-1]


def _check_size(left: str, right: str, name: str) -> None:
    if len(left) * len(right) > _LONGEST:
        raise DataError(f"the texts are too long for {name}")


_measure = partial(by_value, family="string", can_fail=always_may_fail)
_TWO = "s VARCHAR, t VARCHAR"
FUNCTIONS = (
    _measure("hamming", _TWO, [VARCHAR] * 2, BIGINT, _hamming),
    _measure("jaccard", _TWO, [VARCHAR] * 2, DOUBLE, _jaccard),
    _measure("jaro_similarity", _TWO, [VARCHAR] * 2, DOUBLE, _jaro),
    _measure("jaro_winkler_similarity", _TWO, [VARCHAR] * 2, DOUBLE, _jaro_winkler),
    _measure("damerau_levenshtein", _TWO, [VARCHAR] * 2, BIGINT, _damerau),
)
