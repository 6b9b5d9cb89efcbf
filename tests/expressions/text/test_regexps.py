"""Functions on regular expressions against Python's `re`, for expressions that mean the same to
both; and their refusals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runnel
from runnel.expressions.text.regex_syntax import regex_of

TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aab b",
    "baaac",
    "abcabc",
    "éaé",
    "a\nb",
    "x-1_y",
    "bé€😀a",
    "aXbX",
    "\x00\x01a",
    "a" * 40,
]
PATTERNS = [
    "a",
    "a*",
    "(a)(b)?",
    "(?P<first>a)|(b)",
    r"\b",
    r"\ba",
    r"b\b",
    "^a",
    "(?m)^b",
    r"(.)\z",
    "[)(a]+",
    "é(.)?",
    "(a|ab)(c|bcd)*",
    "a??",
    "(a+?)(b*)",
    "[^a]",
    "x|",
    r"\(|a",
]
ADVERSARIES = ["^(a+)+$", "(a|a)*$", "(a*)*b", "(.*a){12}"]


def rows(values: Sequence[str], expression: str, pattern: str) -> list[Any]:
    with runnel.connect() as connection:
        connection.register(
            "t",
            pa.table({"i": range(len(values)), "s": list(values), "p": [pattern] * len(values)}),
        )
        found = connection.execute(f"SELECT {expression} FROM t ORDER BY i", timeout=20).fetchall()
    return [row[0] for row in found]


def of_python(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(r"\z", r"\Z"), re.ASCII)


def groups(match: re.Match[str]) -> list[str | None]:
    return list(match.groups()) if match.re.groups else [match[0]]


def without_repeated_places(
    regex: re.Pattern[str], text: str, start: int = 0
) -> list[re.Match[str]]:
    """As PostgreSQL: behind a match of nothing the search goes on a character later."""
    found, at = [], start
    while at <= len(text):
        match = regex.search(text, at)
        if match is None:
            break
        found.append(match)
        at = match.end() + (match.end() == match.start())
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_first_match(pattern: str) -> None:
    regex = of_python(pattern)
    found = [regex.search(text) for text in TEXTS]
    assert rows(TEXTS, "REGEXP_MATCH(s, p)", pattern) == [
        match and groups(match) for match in found
    ]
    assert rows(TEXTS, "REGEXP_EXTRACT(s, p)", pattern) == [
        match[0] if match else "" for match in found
    ]
    assert rows(TEXTS, "REGEXP_SUBSTR(s, p)", pattern) == [match and match[0] for match in found]
    assert rows(TEXTS, "REGEXP_INSTR(s, p)", pattern) == [
        match.start() + 1 if match else 0 for match in found
    ]
    assert rows(TEXTS, "REGEXP_INSTR(s, p, 1, 1, 1)", pattern) == [
        match.end() + 1 if match else 0 for match in found
    ]
    assert rows(TEXTS, "REGEXP_FULL_MATCH(s, p)", pattern) == [
        regex.fullmatch(text) is not None for text in TEXTS
    ]


@pytest.mark.parametrize("pattern", [item for item in PATTERNS if item != r"\b"])
def test_all_matches(pattern: str) -> None:
    regex = of_python(pattern)
    found = [without_repeated_places(regex, text) for text in TEXTS]
    assert rows(TEXTS, "REGEXP_MATCH_ALL(s, p, 'g')", pattern) == [
        [groups(match) for match in row] for row in found
    ]
    assert rows(TEXTS, "REGEXP_EXTRACT_ALL(s, p)", pattern) == [
        [match[0] for match in row] for row in found
    ]
    assert rows(TEXTS, "REGEXP_COUNT(s, p)", pattern) == [len(row) for row in found]
    third = [row[2] if len(row) > 2 else None for row in found]
    assert rows(TEXTS, "REGEXP_SUBSTR(s, p, 1, 3)", pattern) == [
        match and match[0] for match in third
    ]
    if regex.groups:
        assert rows(TEXTS, "REGEXP_EXTRACT_ALL(s, p, 1)", pattern) == [
            [match[1] or "" for match in row] for row in found
        ]
        assert rows(TEXTS, "REGEXP_INSTR(s, p, 1, 3, 0, '', 1)", pattern) == [
            match.start(1) + 1 if match else 0 for match in third
        ]


@pytest.mark.parametrize("pattern", [item for item in PATTERNS if item != r"\b"])
def test_matches_from_a_place_see_what_stands_before_it(pattern: str) -> None:
    regex = of_python(pattern)
    for start in (2, 3):
        found = [without_repeated_places(regex, text, start - 1) for text in TEXTS]
        assert rows(TEXTS, f"REGEXP_COUNT(s, p, {start})", pattern) == [len(row) for row in found]
        places = [row[0].start() + 1 if row else 0 for row in found]
        assert rows(TEXTS, f"REGEXP_INSTR(s, p, {start})", pattern) == places


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab(é\n", max_size=8), min_size=1, max_size=5),
    st.recursive(
        st.sampled_from(["a", "b", "é", r"\(", "[ab(]", "[^)a]", "(?:a)", "(b)", "."]),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
            inner.map(lambda item: f"({item})?"),
            inner.map(lambda item: f"(?:{item}b)+"),
        ),
        max_leaves=5,
    ),
)
def test_generated(texts: list[str], pattern: str) -> None:
    regex = of_python(pattern)
    assert regex_of(pattern).groups == regex.groups
    found = [without_repeated_places(regex, text) for text in texts]
    assert rows(texts, "REGEXP_MATCH_ALL(s, p, 'g')", pattern) == [
        [groups(match) for match in row] for row in found
    ]


def test_each_row_has_its_own_pattern(cursor: runnel.Cursor) -> None:
    cursor.connection.register(
        "t", pa.table({"s": ["ab", "cd", None, "ab", "x"], "p": ["a", "(d)", "x", None, "y"]})
    )
    cursor.execute(
        "SELECT REGEXP_MATCH(s, p), REGEXP_COUNT(s, p), s LIKE p || '%', REGEXP_LIKE(s, p) FROM t"
    )
    assert cursor.fetchall() == [
        (["a"], 1, True, True),
        (["d"], 1, False, True),
        (None, None, None, None),
        (None, None, None, None),
        (None, 0, False, False),
    ]


CALLS = [
    "MATCH",
    "MATCHES",
    "EXTRACT",
    "EXTRACT_ALL",
    "COUNT",
    "SUBSTR",
    "INSTR",
    "FULL_MATCH",
    "LIKE",
    "SPLIT_TO_ARRAY",
]


@pytest.mark.parametrize("pattern", ADVERSARIES)
@pytest.mark.parametrize("call", CALLS)
def test_no_pattern_takes_exponential_time(call: str, pattern: str) -> None:
    text = "a" * 5000 + "!"
    assert len(rows([text] * 3, f"REGEXP_{call}(s, p)", pattern)) == 3
    assert len(rows([text] * 3, f"REGEXP_{call}(s, '{pattern}')", pattern)) == 3


def test_like_takes_linear_time() -> None:
    assert rows(["a" * 5000], "s LIKE p", "%a" * 30 + "%b") == [False]
    assert rows(["a" * 5000], "s ILIKE p", "%A" * 30 + "%b") == [False]
    document = '{"x": "' + "a" * 5000 + '!"}'
    assert rows([document], "JSON_EXISTS(s, '$.x ? (@ like_regex \"^(a+)+$\")')", "") == [False]


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"(a)\1", r"back-reference \1"),
        ("(?=a)", "look-ahead"),
        ("(?!a)", "look-ahead"),
        ("(?<=a)b", "look-behind"),
        ("(?<!a)b", "look-behind"),
        ("(?>a)", "atomic group"),
        ("a++", "possessive"),
    ],
)
def test_what_re2_does_not_know_is_named(
    cursor: runnel.Cursor, pattern: str, construct: str
) -> None:
    with pytest.raises(runnel.NotSupportedError, match=re.escape(construct)) as caught:
        cursor.execute(f"SELECT REGEXP_MATCH('a', '{pattern}')")
    assert caught.value.position is not None
    assert caught.value.position.column == 26
    cursor.connection.register("t", pa.table({"p": [pattern]}))
    with pytest.raises(runnel.DataError, match=re.escape(construct)):
        cursor.execute("SELECT REGEXP_COUNT('a', p) FROM t").fetchall()


@pytest.mark.parametrize(
    "pattern",
    [r"[(?=]", r"\(?=", r"\Q(?=\E", "[[:alpha:](?=]", "(?P<n>a)", "(?<n>a)", "(?i:a)", r"\Qa("],
)
def test_what_only_looks_like_it_is_taken(cursor: runnel.Cursor, pattern: str) -> None:
    cursor.execute("SELECT REGEXP_COUNT('(?=a', ?)", (pattern,))
    assert cursor.fetchone() is not None


def test_the_first_match_is_replaced_in_its_surroundings(cursor: runnel.Cursor) -> None:
    cursor.execute(
        r"SELECT REGEXP_REPLACE('xy yx', 'x\B', 'z'), REGEXP_REPLACE('ab ab', 'a(b)\b', '[\1\\]')"
    )
    assert cursor.fetchone() == ("zy yx", "[b\\] ab")
