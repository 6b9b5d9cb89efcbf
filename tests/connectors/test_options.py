"""Typed options, and the errors that name what is wrong with them."""

from __future__ import annotations

import pytest

from runnel.connectors.options import (
    Option,
    OptionSet,
    boolean,
    choice,
    duration,
    free_text,
    integer,
    text,
)
from runnel.errors import ProgrammingError

PATH = text("path", required=True)
FORMAT = choice("format", ("csv", "json-flat"), "csv")
HEADER = boolean("header", True)
SIZE = integer("size", 10, least=1, most=100)
WAIT = duration("wait")
NULL_VALUE = free_text("nullValue", "")
OPTIONS = OptionSet("Thing", PATH, FORMAT, HEADER, SIZE, WAIT, NULL_VALUE)


def test_defaults_and_values() -> None:
    options = OPTIONS.read({"path": "/x", "SIZE": "42"})
    assert options.get(PATH) == "/x"
    assert options.require(FORMAT) == "csv"
    assert options.get(SIZE) == 42
    assert options.get(WAIT) is None
    assert options.is_set(SIZE)
    assert not options.is_set(FORMAT)


def test_names_and_words_match_without_case() -> None:
    options = OPTIONS.read({"PATH": "/X", "Format": "JSON-Flat"})
    assert (options.get(PATH), options.get(FORMAT)) == ("/X", "json-flat")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("true", True), ("ON", True), ("1", True), ("False", False), ("off", False)],
)
def test_booleans(value: str, expected: bool) -> None:
    assert OPTIONS.read({"path": "p", "header": value}).get(HEADER) is expected


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        ("500 ms", 500_000_000),
        ("1.5s", 1_500_000_000),
        ("10 Minutes", 600_000_000_000),
        ("1 h", 3_600_000_000_000),
        ("7 days", 604_800_000_000_000),
        ("0", 0),
    ],
)
def test_durations(value: str, nanoseconds: int) -> None:
    assert OPTIONS.read({"path": "p", "wait": value}).get(WAIT) == nanoseconds


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("header", "yes!", "it accepts true or false"),
        ("size", "0", "it accepts a whole number from 1 to 100"),
        ("size", "1e1", "it accepts a whole number from 1 to 100"),
        ("size", "", "it accepts a whole number from 1 to 100"),
        ("format", "xml", "it accepts one of csv, json-flat"),
        ("wait", "5", "it accepts a length of time such as '500 ms', '10 s', '5 minutes' or '1 h'"),
        (
            "wait",
            "2 fortnights",
            "it accepts a length of time such as '500 ms', '10 s', '5 minutes' or '1 h'",
        ),
        ("path", "", "it accepts text that isn't empty"),
    ],
)
def test_a_wrong_value_says_what_is_allowed(name: str, value: str, hint: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        OPTIONS.read({"path": "p", name: value})
    assert caught.value.message == f"wrong value '{value}' for option \"{name}\" of connector Thing"
    assert caught.value.hint == hint


def test_an_unknown_option_is_named_with_the_nearest() -> None:
    with pytest.raises(ProgrammingError) as caught:
        OPTIONS.read({"path": "p", "formt": "csv"})
    assert caught.value.message == 'unknown option "formt" of connector Thing'
    assert caught.value.hint == 'did you mean "format"?'


def test_an_unknown_option_near_none_lists_all() -> None:
    with pytest.raises(ProgrammingError) as caught:
        OPTIONS.read({"path": "p", "zzz": "1"})
    assert caught.value.hint == "its options are path, format, header, size, wait, nullValue"


def test_a_missing_option() -> None:
    with pytest.raises(ProgrammingError) as caught:
        OPTIONS.read({})
    assert caught.value.message == 'option "path" of connector Thing is missing'
    assert caught.value.hint == "add OPTIONS ('path' = '…'); it accepts text that isn't empty"
    optional: Option[int] = WAIT
    with pytest.raises(ProgrammingError, match='option "wait" of connector Thing is missing'):
        OPTIONS.read({"path": "p"}).require(optional)


def test_an_option_given_twice() -> None:
    with pytest.raises(ProgrammingError, match='option "path" of connector Thing is given twice'):
        OPTIONS.read({"path": "a", "Path": "b"})
