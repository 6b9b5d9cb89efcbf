"""The trees that queries become: what the binder relies on, shape by shape."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from runnel.planner.parse.query.allow_list import function_call, position_of, sql_type_of
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import Query


def tree(sql: str) -> Any:
    statement = parse(sql)
    assert isinstance(statement, Query)
    return statement.expression


def scalar(text: str) -> Any:
    """The tree of one expression."""
    (expression,) = tree(f"select {text}").expressions
    return expression


def test_parameters_are_numbered_by_their_place_in_the_text() -> None:
    statement = parse("select ? from t where a = ? order by ? limit ?")
    assert isinstance(statement, Query) and statement.parameters == 4
    query = statement.expression
    assert int(query.expressions[0].name) == 0
    assert int(query.args["where"].this.expression.name) == 1
    assert int(query.args["limit"].expression.name) == 3
    assert all(
        isinstance(node, exp.Parameter) for node in query.find_all(exp.Parameter, exp.Placeholder)
    )


CALLS = [
    ("upper(a)", "UPPER", 1),
    ('"Upper"(a)', "UPPER", 1),
    ("date_trunc('day', a)", "DATE_TRUNC", 2),
    ("strftime(a, '%Y')", "STRFTIME", 2),
    ("regexp_matches(a, b)", "REGEXP_MATCHES", 2),
    ("log(2, a)", "LOG", 2),
    ("length(a)", "LENGTH", 1),
    ("strpos(a, b)", "STRPOS", 2),
    ("left(a, 1)", "LEFT", 2),
    ("right(a, 1)", "RIGHT", 2),
    ("replace(a, b, c)", "REPLACE", 3),
    ("truncate(a, 2)", "TRUNCATE", 2),
    ("if(a, b, c)", "IF", 3),
    ("coalesce(a, b)", "COALESCE", 2),
    ("nullif(a, b)", "NULLIF", 2),
    ("greatest(a, b)", "GREATEST", 2),
    ("concat_ws(',', a, b)", "CONCAT_WS", 3),
    ("mod(a, b)", "MOD", 2),
    ("ceil(a)", "CEIL", 1),
    ("floor(a)", "FLOOR", 1),
    ("power(a, b)", "POWER", 2),
    ("char_length(a)", "CHAR_LENGTH", 1),
    ("ascii(a)", "ASCII", 1),
    ("initcap(a)", "INITCAP", 1),
    ("to_timestamp_tz(a)", "TO_TIMESTAMP_TZ", 1),
    ("array_agg(a)", "ARRAY_AGG", 1),
    ("stddev(a)", "STDDEV", 1),
    ("bool_and(a)", "BOOL_AND", 1),
    ("any_value(a)", "ANY_VALUE", 1),
    ("max(a)", "MAX", 1),
    ("count(*)", "COUNT", 1),
    ("now()", "NOW", 0),
    ("current_date", "CURRENT_DATE", 0),
    ("current_timestamp", "CURRENT_TIMESTAMP", 0),
    ("localtimestamp", "LOCALTIMESTAMP", 0),
    ("current_timestamp(3)", "CURRENT_TIMESTAMP", 1),
    ("row(a, b)", "ROW", 2),
    ("map(a, b)", "MAP", 2),
    ("date(a)", "DATE", 1),
    ("extract(year from a)", "EXTRACT", 2),
    ("substring(a from 2 for 3)", "SUBSTRING", 3),
    ("substring(a from 2)", "SUBSTRING", 2),
    ("substring(a for 3)", "SUBSTRING", 3),
    ("substring(a, 2, 3)", "SUBSTRING", 3),
    ("position(a in b)", "POSITION", 2),
    ("position(a in b from 2)", "POSITION", 3),
    ("overlay(a placing b from 1 for 2)", "OVERLAY", 4),
    ("trim(a)", "BTRIM", 1),
    ("trim(both from a)", "BTRIM", 1),
    ("trim(leading 'x' from a)", "LTRIM", 2),
    ("trim(trailing from a)", "RTRIM", 1),
    ("trim(a, 'x')", "BTRIM", 2),
    ("unknown_one(a, b, c)", "UNKNOWN_ONE", 3),
]


@pytest.mark.parametrize(("text", "name", "count"), CALLS, ids=[text for text, _, _ in CALLS])
def test_function_call_keeps_name_and_arguments(text: str, name: str, count: int) -> None:
    call = function_call(scalar(text))
    assert call is not None
    assert call[0] == name
    assert len(call[1]) == count


def test_arguments_keep_their_order() -> None:
    def names(text: str) -> list[str]:
        call = function_call(scalar(text))
        assert call is not None
        return [argument.name for argument in call[1]]

    assert names("log(a, b)") == ["a", "b"]
    assert names("position(a in b)") == ["a", "b"]
    assert names("strpos(a, b)") == ["a", "b"]
    assert names("extract(year from b)") == ["year", "b"]
    assert names("trim(leading a from b)") == ["b", "a"]
    assert names("substring(a for 3)") == ["a", "1", "3"]
    assert names("split_part(a, b, c)") == ["a", "b", "c"]


def test_what_is_no_function() -> None:
    for text in (
        "a",
        "1",
        "a + b",
        "cast(a as int)",
        "case when a then b end",
        "a in (1)",
        "array[1]",
        "exists (select 1)",
    ):
        assert function_call(scalar(text)) is None


def test_aggregate_modifiers() -> None:
    distinct = scalar("count(distinct a, b)").expressions
    assert len(distinct) == 1 and isinstance(distinct[0], exp.Distinct)
    assert [item.name for item in distinct[0].expressions] == ["a", "b"]
    filtered = scalar("sum(a) filter (where b > 1)")
    assert isinstance(filtered, exp.Filter) and isinstance(filtered.expression.this, exp.GT)
    assert isinstance(scalar("count(*)").expressions[0], exp.Star)


def test_names_that_look_like_calls_stay_names() -> None:
    query = tree(
        "with a(x) as (select 1), b(y) as (select 2) select * from a t(u), unnest(c) w(v) join "
        "f(1) g(h) on true"
    )
    names = [node.this for node in query.find_all(exp.Identifier)]
    assert sorted(set(names)) == ["a", "b", "c", "g", "h", "t", "u", "v", "w", "x", "y"]


@pytest.mark.parametrize(
    ("text", "descending", "nulls_first"),
    [
        ("a", False, True),
        ("a asc", False, True),
        ("a desc", True, False),
        ("a nulls last", False, False),
        ("a nulls first", False, True),
        ("a desc nulls first", True, True),
        ("a desc nulls last", True, False),
    ],
)
def test_null_is_smallest_unless_said_otherwise(
    text: str, descending: bool, nulls_first: bool
) -> None:
    (item,) = tree(f"select a from t order by {text}").args["order"].expressions
    assert bool(item.args.get("desc")) is descending
    assert item.args["nulls_first"] is nulls_first


def test_subscripts_are_as_written() -> None:
    assert [node.expressions[0].name for node in (scalar("a[1]"), scalar("a[i]"))] == ["1", "i"]


def test_types_are_parsed_by_us() -> None:
    types = {
        "cast(a as decimal(10, 2))": "DECIMAL(10, 2)",
        "a::decimal": "DECIMAL(38, 10)",
        "a::int[]": "INTEGER[]",
        "a::int array array": "INTEGER[][]",
        "cast(a as timestamp with time zone)": "TIMESTAMP WITH TIME ZONE",
        "a::row(x int, y varchar[])": "ROW(x INTEGER, y VARCHAR[])",
        "a::map(varchar, double precision)": "MAP(VARCHAR, DOUBLE)",
        "date '2020-01-01'": "DATE",
        "time '10:00'": "TIME",
        "timestamp '2020-01-01 10:00:00'": "TIMESTAMP",
        "timestamp with time zone '2020-01-01 10:00:00+01'": "TIMESTAMP WITH TIME ZONE",
        "timestamptz '2020-01-01'": "TIMESTAMP WITH TIME ZONE",
        "bigint '1'": "BIGINT",
    }
    for text, expected in types.items():
        cast = scalar(text)
        assert isinstance(cast, exp.Cast), text
        assert str(sql_type_of(cast.args["to"])) == expected, text


def test_a_cast_followed_by_more() -> None:
    zoned = scalar("a::timestamp at time zone 'UTC'")
    assert (
        isinstance(zoned, exp.AtTimeZone) and str(sql_type_of(zoned.this.args["to"])) == "TIMESTAMP"
    )
    product = scalar("a::double precision * 2")
    assert isinstance(product, exp.Mul) and str(sql_type_of(product.this.args["to"])) == "DOUBLE"


def test_joins() -> None:
    joins = tree(
        "select 1 from a, b join c on true left outer join d using (x) cross join e natural full "
        "join f"
    ).args["joins"]
    found = [
        (
            j.args.get("method"),
            j.args.get("side"),
            j.args.get("kind"),
            "on" in j.args,
            "using" in j.args,
        )
        for j in joins
    ]
    assert found[0] == (None, None, None, False, False)
    assert found[1] == (None, None, "INNER", True, False)
    assert found[2][1:] == ("LEFT", "OUTER", False, True)
    assert found[3][2] == "CROSS"
    assert found[4][:2] == ("NATURAL", "FULL")


def test_unnest_keeps_both_column_names() -> None:
    unnest = tree("select * from unnest(a) with ordinality as t(w, o)").args["from_"].this
    assert [column.name for column in unnest.args["alias"].args["columns"]] == ["w", "o"]
    assert unnest.args["offset"] is True


def test_table_functions() -> None:
    for sql in (
        "select * from table(f(1, name => 'x')) as t(v)",
        "select * from f(1, name => 'x') as t(v)",
    ):
        table = tree(sql).args["from_"].this
        call = function_call(table.this)
        assert call is not None and call[0] == "F"
        assert isinstance(call[1][1], exp.Kwarg) and call[1][1].this.name == "name"
        assert table.alias == "t"


@pytest.mark.parametrize(
    "name",
    [
        "path",
        "glob",
        "format",
        "options",
        "rows",
        "columns",
        "start",
        "stop",
        "step",
        "rate",
        "index",
    ],
)
def test_named_arguments_may_be_called_anything(name: str) -> None:
    (argument,) = tree(f"select * from f({name} => 1)").args["from_"].this.this.expressions
    assert argument.this.name == name


def test_limit_and_fetch() -> None:
    assert tree("select 1 limit 3").args["limit"].expression.name == "3"
    fetch = tree("select 1 offset 1 row fetch next ? rows only").args["limit"]
    assert isinstance(fetch, exp.Fetch) and isinstance(fetch.args["count"], exp.Parameter)
    assert tree("select 1 fetch first row only").args["limit"].args.get("count") is None
    both = tree("select * from t limit 2, 3")
    assert (both.args["offset"].expression.name, both.args["limit"].expression.name) == ("2", "3")


def test_long_chains_are_fine() -> None:
    assert parse("select " + " and ".join(["a = 1"] * 3000))
    assert parse(" union all ".join(["select 1"] * 1000))
    assert parse("values " + ", ".join(["(1)"] * 3000))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a + bcd", "a + bcd"),
        ("t.abc", "t.abc"),
        ("upper(a)", "upper(a"),
        ("cast(abc as int)", "abc"),
        ("12", "12"),
        ("'it''s'", "'it''s'"),
        ("?", "?"),
        ("-abc", "abc"),
    ],
)
def test_positions(text: str, place: str) -> None:
    sql = f"select\n  {text}"
    position = position_of(tree(sql).expressions[0], sql)
    assert position is not None
    assert sql[position.offset : position.offset + position.length] == place
    assert position.line == 2
    assert position.column == position.offset - 6


def test_null_has_no_position() -> None:
    assert position_of(scalar("null"), "select null") is None


def test_a_sum_of_numbers_with_exponents() -> None:
    sql = "select 1e0+2.5e-3-1_0e1, '1e0+1'"
    outer, text = tree(sql).expressions
    assert isinstance(outer, exp.Sub) and isinstance(outer.this, exp.Add)
    assert (outer.this.this.this, outer.this.expression.this, outer.expression.this) == (
        "1e0",
        "2.5e-3",
        "10e1",
    )
    position = position_of(outer.expression, sql)
    assert (
        position is not None and sql[position.offset : position.offset + position.length] == "1_0e1"
    )
    assert text.this == "1e0+1"


def test_a_typed_literal_binds_tighter_than_a_cast() -> None:
    cast = scalar("timestamp '2024-01-01 10:00:00'::date")
    assert [str(sql_type_of(node.args["to"])) for node in (cast, cast.this)] == [
        "DATE",
        "TIMESTAMP",
    ]
