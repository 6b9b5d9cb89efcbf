"""JSON lines that are alike, cut by the offsets of their quotes: what is found is what Python's
parser finds."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from runnel.connectors.files.json.json_uniform import uniform_columns
from tests.effort import examples

TEXT = some.text('a,:{} é€🦀\\"', max_size=5)
NUMBER = some.integers(-3, 2**63 - 1) | some.integers(0, 12)
VALUE = TEXT | NUMBER | some.none() | some.booleans() | some.floats(0, 2)
SEPARATORS = some.sampled_from([(",", ":"), (", ", ": "), (" , ", " :  ")])


@some.composite
def alike(draw: some.DrawFn) -> tuple[list[dict[str, Any]], tuple[str, str]]:
    """Records with the same fields, nearly all with values of one kind in each."""
    names = draw(
        some.lists(some.text('ab,:{}.*é"', max_size=3), min_size=1, max_size=4, unique=True)
    )
    kinds = {
        name: draw(
            some.sampled_from([TEXT, some.integers(0, 1000), NUMBER, some.sampled_from([":", ","])])
        )
        for name in names
    }
    drawn = draw(some.lists(some.fixed_dictionaries(kinds), min_size=1, max_size=6))
    records = [{name: record[name] for name in names} for record in drawn]
    if draw(some.booleans()):
        draw(some.sampled_from(records))[draw(some.sampled_from(names))] = draw(VALUE)
    return records, draw(SEPARATORS)


TYPES = {str: pa.string(), float: pa.float64(), bool: pa.bool_()}


def _is_alike(value: Any, first: Any) -> bool:
    return (type(value) is str) == (type(first) is str)


def _as(value: Any, arrow_type: pa.DataType) -> Any:
    return float(value) if value is not None and pa.types.is_floating(arrow_type) else value


@settings(deadline=None, max_examples=examples(400))
@given(alike())
def test_what_is_found_is_there(
    given_records: tuple[list[dict[str, Any]], tuple[str, str]],
) -> None:
    records, separators = given_records
    lines = "".join(
        json.dumps(item, ensure_ascii=False, separators=separators) + "\n" for item in records
    )
    types = {name: TYPES.get(type(value), pa.int64()) for name, value in records[0].items()}
    try:
        found = uniform_columns(lines.encode(), {**types, "absent": pa.int64()})
    except pa.ArrowInvalid:
        return
    is_plain = "\\" not in lines and all(
        _is_alike(item[name], records[0][name]) for item in records for name in item
    )
    assert (found is not None) == is_plain
    if found is not None:
        assert {name: column.to_pylist() for name, column in found.items()} == {
            **{
                name: [_as(item[name], arrow_type) for item in records]
                for name, arrow_type in types.items()
            },
            "absent": [None] * len(records),
        }


LINE = '{"a":"x","n":12}\n'


@settings(deadline=None, max_examples=examples(500))
@example(31, ".", False, True)
@given(
    some.integers(0, 3 * len(LINE) - 1),
    some.sampled_from('"{}:,\\ 0-.xé\n\t\r[]'),
    some.booleans(),
    some.booleans(),
)
def test_one_character_that_differs(
    place: int, character: str, replaces: bool, wants_all: bool
) -> None:
    text = LINE * 3
    text = text[:place] + character + text[place + replaces :]
    wanted = {"a": pa.string(), "n": pa.int64()} if wants_all else {"a": pa.string()}
    try:
        found = uniform_columns(text.encode(), wanted)
    except pa.ArrowInvalid:
        # A number such as 1.2, which is no BIGINT: the lines are JSON, and alike.
        values = [json.loads(line)["n"] for line in text.splitlines()]
        assert wants_all
        assert any(type(value) is not int for value in values)
        return
    if found is not None:
        records = [json.loads(line) for line in text.splitlines()]
        assert {name: column.to_pylist() for name, column in found.items()} == {
            name: [item.get(name) for item in records] for name in wanted
        }


@pytest.mark.parametrize(
    "line",
    [
        '{"a":"x","a":"y"}',
        '{"n":007}',
        '{"n":NaN}',
        '{"n":.5}',
        '{"n":5.}',
        '{"n":1e}',
        '{"n":True}',
        '{"n":[1]}',
        '{"n":{}}',
        '["a"]',
        "{}",
        "",
        '{"a":"x"',
        "null",
    ],
)
def test_other_lines_are_left(line: str) -> None:
    assert uniform_columns(f"{line}\n".encode() * 3, {"a": pa.string()}) is None
    assert uniform_columns(f'{{"n":7}}\n{line}\n'.encode(), {"n": pa.int64()}) is None


def test_numbers_as_text_are_as_written() -> None:
    found = uniform_columns(b'{"n":1}\n{"n":-0}\n{"n":123456789012345678901}\n', {"n": pa.string()})
    assert found is not None
    assert found["n"].to_pylist() == ["1", "-0", "123456789012345678901"]


def test_lines_of_windows() -> None:
    found = uniform_columns(b'{"n": 1}\r\n{"n": -2}\r\n', {"n": pa.int8()})
    assert found is not None
    assert found["n"].to_pylist() == [1, -2]


def test_values_without_quotes() -> None:
    lines = (
        '{"x":1.50,"b":true,"t":"null"}',
        '{"x":-2e3,"b":null,"t":"1"}',
        '{"x":null,"b":false,"t":""}',
    )
    text = "".join(f"{line}\n" for line in lines).encode()
    numbers = uniform_columns(text, {"x": pa.float64(), "b": pa.bool_(), "t": pa.string()})
    assert numbers is not None
    assert {name: column.to_pylist() for name, column in numbers.items()} == {
        "x": [1.5, -2000.0, None],
        "b": [True, None, False],
        "t": ["null", "1", ""],
    }
    texts = uniform_columns(text, {"x": pa.string(), "b": pa.string()})
    assert texts is not None
    assert texts["x"].to_pylist() == ["1.50", "-2e3", None]
    assert texts["b"].to_pylist() == ["true", None, "false"]


@pytest.mark.parametrize("value", ["1.5", "true", "1e3", "-"])
def test_values_that_are_no_whole_numbers(value: str) -> None:
    try:
        found = uniform_columns(f'{{"n":7}}\n{{"n":{value}}}\n'.encode(), {"n": pa.int64()})
    except pa.ArrowInvalid:
        found = None
    assert found is None


def test_numbers_that_are_too_large() -> None:
    with pytest.raises(pa.ArrowInvalid):
        uniform_columns(b'{"n":1}\n{"n":128}\n', {"n": pa.int8()})


def test_wide_lines_are_left() -> None:
    """Their expression would be matched slowly."""
    line = json.dumps({f"a field with a long name {i}": i for i in range(100)}) + "\n"
    assert uniform_columns(line.encode() * 3, {"a field with a long name 1": pa.int64()}) is None
