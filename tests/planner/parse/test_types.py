"""Type names."""

from __future__ import annotations

import pytest

from runnel.errors import Error
from runnel.planner.parse.types import MAX_NESTING, parse_type

TYPES = {
    "boolean": "BOOLEAN",
    "bool": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "integer": "INTEGER",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "bigint": "BIGINT",
    "real": "REAL",
    "float4": "REAL",
    "float": "DOUBLE",
    "double": "DOUBLE",
    "double precision": "DOUBLE",
    "decimal": "DECIMAL(38, 10)",
    "numeric(5)": "DECIMAL(5, 0)",
    "dec(38, 38)": "DECIMAL(38, 38)",
    "varchar": "VARCHAR",
    "character varying": "VARCHAR",
    "char varying": "VARCHAR",
    "text": "VARCHAR",
    "string": "VARCHAR",
    "varbinary": "VARBINARY",
    "json": "JSON",
    "date": "DATE",
    "time": "TIME",
    "time without time zone": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMP WITH TIME ZONE",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "interval": "INTERVAL",
    "interval day to second": "INTERVAL DAY TO SECOND",
    "interval year": "INTERVAL YEAR TO MONTH",
    "interval year to month": "INTERVAL YEAR TO MONTH",
    "int[]": "INTEGER[]",
    "int array": "INTEGER[]",
    "int array[]": "INTEGER[][]",
    "row(a int, b varchar)": "ROW(a INTEGER, b VARCHAR)",
    "struct(a int)": "ROW(a INTEGER)",
    "map(varchar, int[])": "MAP(VARCHAR, INTEGER[])",
}


@pytest.mark.parametrize(("text", "expected"), TYPES.items())
def test_parse_type(text: str, expected: str) -> None:
    assert str(parse_type(text)) == expected
    assert parse_type(text.upper()).kind is parse_type(text).kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the statement ends too early"),
        ("'int'", "syntax error at \"'int'\""),
        ("int int", 'syntax error at "int"'),
        ("decimal(", "the statement ends too early"),
        ("decimal(x)", 'syntax error at "x"'),
        ("decimal(0)", "DECIMAL can't have 0 digits"),
        ("decimal(99999999999999999999)", "DECIMAL can't have 999999999 digits"),
        ("timestamp(3)", "TIMESTAMP with a length or precision is not supported"),
        ("interval year to second", 'syntax error at "second"'),
        ("map(int)", 'syntax error at ")"'),
        ("row()", 'syntax error at ")"'),
        ("int" + "[]" * (MAX_NESTING + 1), "a type nested more than 16 deep is not supported"),
        ("row(a " * 40 + "int" + ")" * 40, "a type nested more than 16 deep is not supported"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(Error) as caught:
        parse_type(text)
    assert caught.value.message == message
    assert caught.value.position is not None


def test_nesting_limit_is_reached() -> None:
    assert str(parse_type("int" + "[]" * MAX_NESTING)).count("[]") == MAX_NESTING
