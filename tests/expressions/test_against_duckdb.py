"""Functions whose meaning is the same in DuckDB, over all edge values."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest

from runnel.expressions import build
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.lazy_families import LAZY_FAMILIES
from runnel.expressions.nodes import Call, Expression, walk
from runnel.sqltypes import BIGINT, DOUBLE, VARCHAR, decimal
from tests.expressions.edge_values import (
    ZONE,
    Rows,
    assert_all_like_duckdb,
    assert_like_duckdb,
    call,
    edges,
    literal,
)

NUMBERS = ("tiny", "small", "i", "big", "money", "wide", "r", "x")
COMPARED = [(a, b) for i, a in enumerate(NUMBERS) for b in NUMBERS[i:]]
COMPARED += [("x", "i"), ("wide", "tiny")]
COMPARED += [
    ("s", "s"),
    ("b", "b"),
    ("d", "d"),
    ("d", "ts"),
    ("ts", "ts"),
    ("t", "t"),
    ("tz", "tz"),
    ("ts", "tz"),
]
OPERATORS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
OPERATORS |= {"is_distinct": "IS DISTINCT FROM", "is_not_distinct": "IS NOT DISTINCT FROM"}
_FLOATS = ("r", "x")


@pytest.mark.parametrize(("left", "right"), COMPARED)
def test_comparison(left: str, right: str) -> None:
    rows = edges(left, right) if left != right else _twice(left)
    first, second = (rows[name] for name in rows.types)
    sides = [f'"{column}"' for column in rows.types]
    if (
        left in _FLOATS or right in _FLOATS
    ):  # DuckDB would compare REAL with DECIMAL as DOUBLE or DECIMAL
        target = "REAL" if "x" not in (left, right) else "DOUBLE"
        sides = [f"CAST({side} AS {target})" for side in sides]
    compared = {
        f"{sides[0]} {symbol} {sides[1]}": call(name, (first, second))
        for name, symbol in OPERATORS.items()
    }
    assert_all_like_duckdb(rows, compared)


def _twice(name: str) -> Rows:
    once = edges(name)
    values = list(zip(*[(a, b) for a in _values(once) for b in _values(once)], strict=True))
    return Rows(a=(once.types[name], values[0]), b=(once.types[name], values[1]))


def _values(rows: Rows) -> list[Any]:
    (name,) = rows.types
    return rows.run(rows[name])


@pytest.mark.parametrize("name", ["r", "x", "i", "s"])
def test_comparison_with_a_literal_on_either_side(name: str) -> None:
    rows = edges(name)
    value = "a" if name == "s" else 1.5
    text = "'a'" if name == "s" else "1.5::DOUBLE"
    for operator, symbol in OPERATORS.items():
        assert_like_duckdb(
            rows, call(operator, (rows[name], literal(value))), f"{name} {symbol} {text}"
        )
        assert_like_duckdb(
            rows, call(operator, (literal(value), rows[name])), f"{text} {symbol} {name}"
        )


def test_comparison_with_nan() -> None:
    rows = edges("x")
    for operator, symbol in OPERATORS.items():
        expression = call(operator, (rows["x"], literal(float("nan"))))
        assert_like_duckdb(rows, expression, f"x {symbol} 'nan'::DOUBLE")


def _pair(rows: Rows) -> Expression:
    return call("array", (rows["s"], literal("z")))


def _strings(name: str, sql: str, *options: Any) -> tuple[str, Callable[[Rows], Expression], str]:
    return "s", lambda rows: call(name, (rows["s"], *(literal(option) for option in options))), sql


CASES: list[tuple[str, Callable[[Rows], Expression], str]] = [
    _strings("LOWER", "lower(s)"),
    _strings("REVERSE", "reverse(s)"),
    _strings("LENGTH", "length(s)"),
    _strings("OCTET_LENGTH", "strlen(s)"),
    _strings("ASCII", "ascii(s)"),
    _strings("BTRIM", "trim(s, ' ')"),
    _strings("TRIM", "trim(s, ' x')", " x"),
    _strings("LTRIM", "ltrim(s, 'x')", "x"),
    _strings("RTRIM", "rtrim(s, 'xH')", "xH"),
    _strings("SUBSTRING", "substring(s, 2)", 2),
    _strings("SUBSTRING", "substring(s, 2, 3)", 2, 3),
    _strings("SUBSTRING", "substring(s, 50, 3)", 50, 3),
    _strings("LEFT", "left(s, 3)", 3),
    _strings("LEFT", "left(s, -2)", -2),
    _strings("RIGHT", "right(s, 3)", 3),
    _strings("RIGHT", "right(s, -2)", -2),
    _strings("RIGHT", "right(s, 0)", 0),
    _strings("LPAD", "lpad(s, 7, '*')", 7, "*"),
    _strings("RPAD", "rpad(s, 7, 'ab')", 7, "ab"),
    _strings("RPAD", "rpad(s, 0, 'ab')", 0, "ab"),
    _strings("REPEAT", "repeat(s, 3)", 3),
    _strings("REPEAT", "repeat(s, 0)", 0),
    _strings("REPLACE", "replace(s, 'l', 'LL')", "l", "LL"),
    _strings("STRPOS", "strpos(s, 'o')", "o"),
    _strings("STRPOS", "strpos(s, '本')", "本"),
    _strings("STARTS_WITH", "starts_with(s, 'He')", "He"),
    _strings("ENDS_WITH", "ends_with(s, 'x')", "x"),
    _strings("SPLIT_PART", "split_part(s, ',', 3)", ",", 3),
    _strings("SPLIT_PART", "split_part(s, ',', -1)", ",", -1),
    _strings("SPLIT_PART", "split_part(s, 'xx', 2)", "xx", 2),
    _strings("concat", "s || 'x'", "x"),
    _strings("CONCAT", "concat(s, NULL, 'x')", None, "x"),
    _strings("like", "s LIKE '%o%'", "%o%"),
    _strings("like", "s LIKE 'H%'", "H%"),
    _strings("like", "s LIKE '%x'", "%x"),
    _strings("like", "s LIKE ''", ""),
    _strings("like", "s LIKE '%'", "%"),
    _strings("like", "s LIKE 'line_break'", "line_break"),
    _strings("like", "s LIKE '___'", "___"),
    _strings("like", "s LIKE '%l%o%'", "%l%o%"),
    _strings("like", "s LIKE '100!%' ESCAPE '!'", "100!%", "!"),
    _strings("like", "s LIKE 'a.b'", "a.b"),
    _strings("ilike", "s ILIKE 'hello%'", "hello%"),
    _strings("ilike", "s ILIKE '%WORLD'", "%WORLD"),
    _strings("ilike", "s ILIKE 'äö%'", "äö%"),
    _strings("REGEXP_LIKE", "regexp_matches(s, '^[A-Z]')", "^[A-Z]"),
    _strings("REGEXP_LIKE", "regexp_matches(s, '^h', 'i')", "^h", "i"),
    _strings("REGEXP_REPLACE", "regexp_replace(s, '([a-z])', '<\\1>')", "([a-z])", "<\\1>"),
    _strings("REGEXP_REPLACE", "regexp_replace(s, 'x*', '-', 'g')", "x*", "-", "g"),
    _strings("REGEXP_SPLIT_TO_ARRAY", "string_split_regex(s, '[^a-z]+')", "[^a-z]+"),
    (
        "s",
        lambda rows: call("CONCAT_WS", (literal("-"), rows["s"], literal(None), literal(1))),
        "concat_ws('-', s, NULL, 1)",
    ),
    ("s", lambda rows: call("POSITION", (literal("x"), rows["s"])), "position('x' IN s)"),
    ("s", lambda rows: build.cast(rows["s"], VARCHAR), "s"),
    ("x", lambda rows: call("ABS", (rows["x"],)), "abs(x)"),
    ("x", lambda rows: call("CBRT", (rows["x"],)), "cbrt(x)"),
    ("x", lambda rows: call("ATAN", (rows["x"],)), "atan(x)"),
    ("x", lambda rows: call("RADIANS", (rows["x"],)), "radians(x)"),
    ("x", lambda rows: call("FLOOR", (rows["x"],)), "floor(x)"),
    ("x", lambda rows: call("CEIL", (rows["x"],)), "ceil(x)"),
    ("x", lambda rows: call("ROUND", (rows["x"],)), "round(x)"),
    ("x", lambda rows: call("ATAN2", (rows["x"], literal(2.0))), "atan2(x, 2)"),
    ("x", lambda rows: call("GREATEST", (rows["x"], literal(1.0))), "greatest(x, 1.0::DOUBLE)"),
    ("x", lambda rows: call("LEAST", (rows["x"], literal(1.0))), "least(x, 1.0::DOUBLE)"),
    ("s", lambda rows: call("GREATEST", (rows["s"], literal("b"))), "greatest(s, 'b')"),
    ("money", lambda rows: call("FLOOR", (rows["money"],)), "floor(money)"),
    ("money", lambda rows: call("CEIL", (rows["money"],)), "ceil(money)"),
    ("money", lambda rows: call("ROUND", (rows["money"], literal(1))), "round(money, 1)"),
    ("money", lambda rows: call("ROUND", (rows["money"],)), "round(money)"),
    ("money", lambda rows: call("TRUNCATE", (rows["money"],)), "trunc(money)"),
    ("money", lambda rows: call("ABS", (rows["money"],)), "abs(money)"),
    ("money", lambda rows: call("SIGN", (rows["money"],)), "sign(money)"),
    ("tiny", lambda rows: call("SIGN", (rows["tiny"],)), "sign(tiny)"),
    ("i", lambda rows: call("LEAST", (rows["i"], literal(5))), "least(i, 5)"),
    ("d", lambda rows: call("is_null", (rows["d"],)), "d IS NULL"),
    ("d", lambda rows: call("is_not_null", (rows["d"],)), "d IS NOT NULL"),
    ("i", lambda rows: build.nullif(rows["i"], literal(1)), "nullif(i, 1)"),
    ("i", lambda rows: build.coalesce([rows["i"], literal(7)]), "coalesce(i, 7)"),
    ("tz", lambda rows: call("TO_EPOCH_MILLIS", (rows["tz"],)), "epoch_ms(tz)"),
    (
        "ts",
        lambda rows: call("at_time_zone", (rows["ts"], literal("UTC"))),
        "ts AT TIME ZONE 'UTC'",
    ),
    (
        "tz",
        lambda rows: call("at_time_zone", (rows["tz"], literal(ZONE))),
        f"tz AT TIME ZONE '{ZONE}'",
    ),
    (
        "s",
        lambda rows: call("CARDINALITY", (call("array", (rows["s"], literal("z"))),)),
        "len([s, 'z'])",
    ),
    (
        "s",
        lambda rows: call("subscript", (call("array", (rows["s"], literal("z"))), literal(1))),
        "[s, 'z'][1]",
    ),
    ("s", lambda rows: call("subscript", (call("array", (rows["s"],)), literal(2))), "[s][2]"),
    (
        "s",
        lambda rows: call(
            "ARRAY_TO_STRING", (call("array", (rows["s"], literal("z"))), literal("-"))
        ),
        "array_to_string([s, 'z'], '-')",
    ),
]


@pytest.mark.parametrize(("column", "make", "sql"), CASES, ids=[case[2] for case in CASES])
def test_function(column: str, make: Callable[[Rows], Expression], sql: str) -> None:
    rows = edges(column)
    assert_like_duckdb(rows, make(rows), sql, relative=1e-14)


DOMAINS = {
    "SQRT": [0.0, 0.25, 2.0, 1e300, None, float("nan")],
    "EXP": [0.0, -1.0, 700.0, -1000.0, None, float("nan")],
    "LN": [1.0, 0.5, 1e300, 5e-324, None],
    "LOG10": [1.0, 1000.0, 5e-324, None],
    "LOG2": [1.0, 1024.0, None],
    "DEGREES": [0.0, 1.0, -3.5, None],
    "SIN": [0.0, 1.0, -10.0, None],
    "COS": [0.0, 1.0, -10.0, None],
    "TAN": [0.0, 1.0, -10.0, None],
    "COT": [0.5, 1.0, -10.0, None],
    "ASIN": [0.0, 1.0, -1.0, 0.3, None],
    "ACOS": [0.0, 1.0, -1.0, 0.3, None],
    "SINH": [0.0, 1.5, -2.25, 700.0, None],
    "COSH": [0.0, 1.5, -2.25, 700.0, None],
    "TANH": [0.0, 1.5, -2.25, 1e10, None],
    "ASINH": [0.0, 1.5, -2.25, 1e10, None],
    "ACOSH": [1.0, 1.5, 1e10, None],
    "ATANH": [0.0, 0.5, -0.99, None],
}


@pytest.mark.parametrize("name", DOMAINS)
def test_mathematics_within_the_domain(name: str) -> None:
    rows = Rows(x=(DOUBLE, DOMAINS[name]))
    assert_like_duckdb(rows, call(name, (rows["x"],)), f"{name.lower()}(x)", relative=1e-14)


def test_power() -> None:
    rows = Rows(x=(DOUBLE, [2.0, 0.0, -2.0, 1.5, None]), y=(DOUBLE, [10.0, 0.0, 3.0, -1.5, 1.0]))
    assert_like_duckdb(rows, call("POWER", (rows["x"], rows["y"])), "power(x, y)", relative=1e-14)
    assert_like_duckdb(rows, call("SQUARE", (rows["x"],)), "x * x")


FIELDS = (
    "millennium century decade year isoyear quarter month week day dow isodow doy hour minute epoch"
).split()


@pytest.mark.parametrize("field", FIELDS)
def test_extract(field: str) -> None:
    for column in ("ts", "d"):
        rows = edges(column)
        expression = call("EXTRACT", (literal(field), rows[column]))
        assert_like_duckdb(
            rows, expression, f"extract({field} FROM {column}::TIMESTAMP)", relative=1e-15
        )


def test_extract_sees_an_instant_in_the_session_zone() -> None:
    rows = edges("tz")
    for field in FIELDS:
        expression = call("DATE_PART", (literal(field), rows["tz"]))
        assert_like_duckdb(rows, expression, f"date_part('{field}', tz)", zone=ZONE)


UNITS = "microsecond millisecond second minute hour day week month quarter year".split()


@pytest.mark.parametrize("unit", UNITS)
def test_date_trunc(unit: str) -> None:
    rows = edges("ts")
    assert_like_duckdb(
        rows, call("DATE_TRUNC", (literal(unit), rows["ts"])), f"date_trunc('{unit}', ts)"
    )
    rows = edges("tz")
    assert_like_duckdb(
        rows,
        call("DATE_TRUNC", (literal(unit), rows["tz"])),
        f"date_trunc('{unit}', tz)",
        zone=ZONE,
    )


def test_options_that_differ_from_row_to_row() -> None:
    texts, lengths = ["abc", "", "äöü", None, "a,b"], [2, 3, -1, 1, None]
    rows = Rows(s=(VARCHAR, texts), p=(VARCHAR, ["b", "", "ü", "a", ","]), n=(BIGINT, lengths))
    s, p, n = rows["s"], rows["p"], rows["n"]
    for expression, sql in (
        (call("LEFT", (s, n)), "left(s, n)"),
        (call("RIGHT", (s, n)), "right(s, n)"),
        (call("STARTS_WITH", (s, p)), "starts_with(s, p)"),
        (call("STRPOS", (s, p)), "strpos(s, p)"),
        (call("REPLACE", (s, p, literal("Z"))), "replace(s, p, 'Z')"),
        (call("like", (s, p)), "s LIKE p"),
        (call("like", (literal("b"), p)), "'b' LIKE p"),
        (call("BTRIM", (s, p)), "trim(s, p)"),
        (call("REPEAT", (s, n)), "repeat(s, n)"),
        (call("REGEXP_LIKE", (s, p)), "regexp_matches(s, p)"),
        (
            call("subscript", (call("STRING_TO_ARRAY", (literal("x,y,z"), literal(","))), n)),
            "['x','y','z'][n]",
        ),
    ):
        assert_like_duckdb(rows, expression, sql)


def _letters() -> Expression:
    return call("STRING_TO_ARRAY", (literal("x,y,z"), literal(",")))


PINNED_ELSEWHERE = {
    "and", "or", "not", "is_true", "is_not_true", "is_false", "is_not_false", "add", "subtract",
    "multiply", "divide", "remainder", "negate", "rand", "pi", "upper", "initcap", "chr",
    "string_to_array", "array_length", "row", "field", "now", "localtimestamp", "proctime",
    "current_date", "current_time", "to_timestamp_tz", "log_base", "is_nan", "is_inf",
    "is_finite", "num_nulls", "num_nonnulls", "hash", "not_null",
}  # fmt: skip


def test_every_function_is_compared_or_pinned() -> None:
    compared = {
        "extract",
        "date_trunc",
        "power",
        "square",
        *OPERATORS,
        *(name.lower() for name in DOMAINS),
    }
    for column, make, _ in CASES:
        compared |= {node.function for node in walk(make(edges(column))) if isinstance(node, Call)}
    families = [import_module(f"runnel.expressions.{name}") for name in LAZY_FAMILIES]
    lazy = {item.name for family in families for item in family.FUNCTIONS}  # test_lazy_families
    assert set(FUNCTIONS) == compared | PINNED_ELSEWHERE | lazy


def test_decimals_of_different_scale_compare_exactly() -> None:
    rows = Rows(
        a=(decimal(38, 0), [Decimal(10) ** 37, Decimal(1), Decimal(0), None]),
        b=(decimal(38, 37), [Decimal(1), Decimal("1." + "0" * 36 + "1"), Decimal(0), Decimal(1)]),
    )
    assert rows.run(call("gt", (rows["a"], rows["b"]))) == [True, False, False, None]
    assert rows.run(call("eq", (rows["a"], rows["b"]))) == [False, False, True, None]
    assert rows.run(call("is_not_distinct", (rows["a"], rows["b"]))) == [False, False, True, False]
