"""Text functions where DuckDB does otherwise, or refuses otherwise; what goes wrong and how it is
told."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Literal
from runnel.sqltypes import BIGINT, BOOLEAN, VARCHAR, map_of, row
from tests.expressions.edge_values import Rows, call, literal


def one(name: str, *arguments: Any) -> Any:
    """The function of literals; and of columns, which must agree where the arguments may be
    columns."""
    (by_literals,) = Rows().run(call(name, [literal(item) for item in arguments]))
    types = [BIGINT if isinstance(item, int) else VARCHAR for item in arguments]
    rows = Rows(**{f"c{i}": (types[i], [item, item]) for i, item in enumerate(arguments)})
    columns = [rows[f"c{i}"] for i in range(len(arguments))]
    assert rows.run(call(name, columns)) == [by_literals] * 2
    mixed = [columns[0], *(literal(item) for item in arguments[1:])]
    assert rows.run(call(name, mixed)) == [by_literals] * 2
    return by_literals


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("UPPER", ["straße ä"], "STRAẞE Ä"),
        ("INITCAP", ["hello wORLD o'neil a1b x_y"], "Hello World O'Neil A1b X_Y"),
        ("INITCAP", ["élan ñandú"], "Élan Ñandú"),
        ("CHR", [8364], "€"),
        ("ASCII", ["€"], 8364),
        ("LTRIM", ["  x "], "x "),
        ("LPAD", ["hello", 3], "hel"),
        ("LPAD", ["x", 4, "ab"], "abax"),
        ("LPAD", ["x", 4, ""], "x"),
        ("RPAD", ["x", -1], ""),
        ("REPEAT", ["ab", -2], ""),
        ("REPLACE", ["abc", "", "x"], "abc"),
        ("STRPOS", ["äbäb", "b"], 2),
        ("STRPOS", ["äbäb", "b", 3], 4),
        ("STRPOS", ["abc", ""], 1),
        ("STRPOS", ["abc", "c", 9], 0),
        ("STRPOS", ["abc", "a", 0], 0),
        ("SPLIT_PART", ["xa", "aa", 1], "xa"),
        ("SPLIT_PART", ["a--b", "--", 2], "b"),
        ("SPLIT_PART", ["abc", "", 1], "abc"),
        ("SPLIT_PART", ["abc", ",", 5], ""),
        ("SUBSTRING", ["abc", 4], ""),
        ("SUBSTRING", ["äöü", 2, 1], "ö"),
        ("CONCAT_WS", ["-", "a", "b"], "a-b"),
        ("STRING_TO_ARRAY", ["", ","], []),
        ("STRING_TO_ARRAY", ["a,,b", ",", ""], ["a", None, "b"]),
        ("STRING_TO_ARRAY", ["abc", ""], ["abc"]),
        ("REGEXP_SPLIT_TO_ARRAY", ["hello  world", r"\s+"], ["hello", "world"]),
        ("REGEXP_SPLIT_TO_ARRAY", ["hello", r"\s*"], ["h", "e", "l", "l", "o"]),
        ("REGEXP_SPLIT_TO_ARRAY", ["aXbxc", "x", "i"], ["a", "b", "c"]),
        ("REGEXP_SPLIT_TO_ARRAY", ["one two", r"\b"], ["one", " ", "two"]),
        ("REGEXP_REPLACE", ["foobar", "(o+)", "<\\1>"], "f<oo>bar"),
        ("REGEXP_LIKE", ["a\nb", "a.b"], False),
        ("REGEXP_LIKE", ["a\nb", "a.b", "s"], True),
        ("like", ["a\nb", "a_b"], True),
        ("like", ["a.b", "a.b"], True),
        ("like", ["axb", "a.b"], False),
        ("like", ["50%", "50!%", "!"], True),
        ("like", ["a!b", "a!!b", "!"], True),
        ("like", ["(a|b)*[c]{1}^$", "(a|b)*[c]{1}^_"], True),
        ("like", [r"a\%", r"a\%"], True),
        ("ilike", ["ÄB\n", "äb_"], True),
    ],
    ids=repr,
)
def test_pinned(name: str, arguments: list[Any], result: Any) -> None:
    assert one(name, *arguments) == result


def test_concatenation_and_null() -> None:
    rows = Rows(s=(VARCHAR, ["a", None]), n=(BIGINT, [1, 2]))
    assert rows.run(call("concat", (rows["s"], rows["n"]))) == ["a1", None]
    assert rows.run(call("CONCAT", (rows["s"], rows["n"], literal(None)))) == ["a1", "2"]
    assert rows.run(call("CONCAT_WS", (literal("-"), rows["s"], rows["n"]))) == ["a-1", "2"]
    assert rows.run(call("CONCAT_WS", (literal(None), rows["s"], rows["n"]))) == [None, None]
    assert rows.run(call("CONCAT_WS", (rows["s"],))) == ["", None]


def test_null_options_give_null() -> None:
    rows = Rows(s=(VARCHAR, ["abc", None]))
    for name, count in (
        ("LEFT", 1),
        ("REPLACE", 2),
        ("STARTS_WITH", 1),
        ("like", 1),
        ("SPLIT_PART", 2),
        ("LPAD", 1),
    ):
        assert rows.run(call(name, (rows["s"], *[literal(None)] * count))) == [None, None]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("SUBSTRING", ["abc", 0], "SUBSTRING start must not be 0"),
        ("SUBSTRING", ["abc", 1, -1], "SUBSTRING length must not be negative, but is -1"),
        ("SPLIT_PART", ["abc", ",", 0], "SPLIT_PART position must not be 0"),
        ("CHR", [-1], "there is no character with code -1"),
        ("CHR", [0xD800], "there is no character with code 55296"),
        ("LPAD", ["x", 10**12], "a text of 1000000000000 characters is too long"),
        ("REPEAT", ["x" * 100, 10**9], "a text is too long"),
    ],
)
def test_what_a_row_may_not_ask_for(name: str, arguments: list[Any], message: str) -> None:
    types = [BIGINT if isinstance(item, int) else VARCHAR for item in arguments]
    rows = Rows(**{f"c{i}": (types[i], [None, item]) for i, item in enumerate(arguments)})
    for given in (
        [rows[f"c{i}"] for i in range(len(arguments))],
        [rows["c0"], *map(literal, arguments[1:])],
    ):
        with pytest.raises(DataError) as raised:
            rows.run(call(name, given))
        assert raised.value.message == message


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "like",
            ["a", "a!b", "!"],
            "the escape character '!' must precede %, _ or itself in a LIKE pattern",
        ),
        (
            "like",
            ["a", "a!", "!"],
            "the escape character '!' must precede %, _ or itself in a LIKE pattern",
        ),
        ("like", ["a", "a", "!!"], "ESCAPE must be a single character"),
        ("REGEXP_LIKE", ["a", "("], "invalid regular expression: missing ): ("),
        ("REGEXP_LIKE", ["a", "a", "z"], "unknown regular expression flag 'z'"),
        ("REGEXP_SPLIT_TO_ARRAY", ["a", "["], "invalid regular expression: missing ]: ["),
    ],
)
def test_a_bad_pattern_is_told_where_it_stands(
    name: str, arguments: list[Any], message: str
) -> None:
    position = Position(1, 9, 8)
    bound = [
        literal(arguments[0]),
        *(Literal(value=item, type=VARCHAR, position=position) for item in arguments[1:]),
    ]
    with pytest.raises(ProgrammingError) as raised:
        call(name, bound)
    assert raised.value.message == message
    assert raised.value.position == position
    rows = Rows(**{f"c{i}": (VARCHAR, [item]) for i, item in enumerate(arguments)})
    with pytest.raises(DataError) as failed:
        rows.run(call(name, [rows[f"c{i}"] for i in range(len(arguments))]))
    assert failed.value.message == message


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("LOWER", [], "LOWER expects 1 argument, not 0"),
        ("LOWER", ["a", "b"], "LOWER expects 1 argument, not 2"),
        ("SUBSTRING", ["a"], "SUBSTRING expects 2 to 3 arguments, not 1"),
        ("CONCAT", [], "CONCAT_ALL expects at least 1 argument, not 0"),
        ("LOWER", [5], "argument 1 of LOWER must be VARCHAR, not TINYINT"),
        ("SQRT", ["a"], "argument 1 of SQRT must be DOUBLE, not VARCHAR"),
        ("ABS", ["a"], "argument 1 of ABS must be NUMERIC, not VARCHAR"),
        ("LEFT", ["a", 1.5], "argument 2 of LEFT must be BIGINT, not DOUBLE"),
        ("POSITION", ["a"], "POSITION expects 2 to 3 arguments, not 1"),
        ("COALESCE", [], "COALESCE expects at least 1 argument"),
        ("NULLIF", ["a"], "NULLIF expects 2 arguments, not 1"),
        (
            "EXTRACT",
            ["yeer", "2020-01-01"],
            "argument 2 of EXTRACT must be a date, a time or an INTERVAL, not VARCHAR",
        ),
    ],
)
def test_wrong_arguments(name: str, arguments: list[Any], message: str) -> None:
    with pytest.raises(ProgrammingError) as raised:
        call(name, [literal(item) for item in arguments])
    assert raised.value.message == message


def test_an_unknown_function() -> None:
    position = Position(1, 1, 0)
    with pytest.raises(ProgrammingError) as raised:
        build.call("SUBSTRNG", (literal("a"),), position)
    assert raised.value.message == 'function "SUBSTRNG" not found'
    assert raised.value.hint == 'did you mean "SUBSTRING"?'
    assert raised.value.position == position


def test_arrays_and_rows() -> None:
    rows = Rows(s=(VARCHAR, ["a", None, "c"]), n=(BIGINT, [1, 2, 3]))
    pair = call("array", (rows["s"], literal("z")))
    assert rows.run(pair) == [["a", "z"], [None, "z"], ["c", "z"]]
    assert rows.run(call("subscript", (pair, rows["n"]))) == ["a", "z", None]
    assert rows.run(call("subscript", (pair, literal(0)))) == [None, None, None]
    assert rows.run(call("ARRAY_LENGTH", (pair, literal(1)))) == [2, 2, 2]
    assert rows.run(call("ARRAY_LENGTH", (pair, literal(2)))) == [None, None, None]
    empty = call("STRING_TO_ARRAY", (literal(""), literal(",")))
    assert Rows().run(call("ARRAY_LENGTH", (empty, literal(1)))) == [None]
    assert Rows().run(call("CARDINALITY", (empty,))) == [0]
    assert Rows().run(call("array", ())) == [[]]
    assert rows.run(call("ARRAY_TO_STRING", (pair, literal("|")))) == ["a|z", "z", "c|z"]
    made = call("ROW", (rows["n"], rows["s"]))
    assert made.type == row(("f1", BIGINT), ("f2", VARCHAR))
    assert rows.run(made)[1] == {"f1": 2, "f2": None}
    assert rows.run(call("field", (made, literal("F2")))) == ["a", None, "c"]
    with pytest.raises(ProgrammingError, match='field "f3" not found in ROW'):
        call("field", (made, literal("f3")))
    assert rows.run(call("eq", (made, made))) == [True, True, True]
    assert rows.run(call("eq", (made, call("ROW", (literal(2), rows["s"]))))) == [
        False,
        True,
        False,
    ]
    with pytest.raises(ProgrammingError, match="cannot apply '=' operator to"):
        call("eq", (made, call("ROW", (rows["s"], rows["n"]))))
    with pytest.raises(ProgrammingError, match="cannot take element"):
        call("subscript", (rows["s"], literal(1)))


def test_map_look_up() -> None:
    rows = Rows(
        m=(map_of(VARCHAR, BIGINT), [{"a": 1, "b": 2}, {}, None]), k=(VARCHAR, ["b", "a", "a"])
    )
    assert rows.run(call("subscript", (rows["m"], rows["k"]))) == [2, None, None]
    assert rows.run(call("subscript", (rows["m"], literal("a")))) == [1, None, None]


def test_boolean_results_have_boolean_type() -> None:
    assert call("like", (literal("a"), literal("a"))).type == BOOLEAN
