"""TO_CHAR of numbers, compared with a table of what PostgreSQL 15 gives."""

from __future__ import annotations

from decimal import Decimal
from itertools import groupby
from pathlib import Path

import pytest

from runnel.errors import DataError
from runnel.expressions.to_char.format_numbers import text_of

FACTS = [
    line.split("|")
    for line in (Path(__file__).parent / "to_char_numbers.txt").read_text().splitlines()[1:]
]
BY_PATTERN = [(pattern, list(facts)) for pattern, facts in groupby(FACTS, key=lambda fact: fact[0])]


@pytest.mark.parametrize(
    ("pattern", "facts"), BY_PATTERN, ids=[pattern for pattern, _ in BY_PATTERN]
)
def test_like_postgresql(pattern: str, facts: list[list[str]]) -> None:
    found = [[pattern, value, f"[{text_of(Decimal(value), pattern)}]"] for _, value, _ in facts]
    assert found == facts


@pytest.mark.parametrize(
    ("value", "pattern", "text"),
    [
        (1.005, "9.99", " 1.01"),
        (1.005, "9.99EEEE", " 1.01e+00"),
        (2.5, "RN", "            III"),
        (0.0, "9.99EEEE", " 0.00e+00"),
        (99.995, "9.99EEEE", " 1.00e+02"),
        (1e300, "9EEEE", " 1e+300"),
    ],
)
def test_floats_by_their_shortest_digits(value: float, pattern: str, text: str) -> None:
    assert text_of(value, pattern) == text


@pytest.mark.parametrize("pattern", ["99V9EEEE", "S9.99EEEE", "9.99EEEEMI", "9EEEEPR"])
def test_what_an_exponent_does_not_go_with(pattern: str) -> None:
    with pytest.raises(DataError, match="EEEE goes with digits"):
        text_of(Decimal(1), pattern)
