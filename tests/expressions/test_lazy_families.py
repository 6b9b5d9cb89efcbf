"""The families that are imported on first use: how their functions are found, and comparisons with
DuckDB and with Python."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from math import copysign
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runnel
from runnel.errors import DataError, ProgrammingError
from runnel.expressions import lazy_families
from runnel.expressions.functions import (
    _FAMILIES,
    FUNCTIONS,
    SQL_NAMES,
    FunctionRegistry,
    _key_of,
    _spelled_key,
    _spelled_sql_name,
)
from runnel.expressions.json import text as json_text
from runnel.expressions.json.path import compile_path
from runnel.expressions.kernels.values import array_of
from runnel.expressions.lazy_families import LAZY_FAMILIES, SLOW_FAMILIES, families_with
from runnel.expressions.text.uuids import from_storage, to_storage
from runnel.expressions.to_char import format_numbers as char_numbers
from runnel.sqltypes import BIGINT, TIMESTAMP, VARCHAR, array
from runnel.sqltypes import UUID as SQL_UUID
from tests.effort import examples
from tests.expressions.edge_values import Rows, assert_like_duckdb, call, literal

SLT = Path(__file__).parent.parent / "slt"


def module_of(family: str) -> Any:
    return import_module(f"runnel.expressions.{family}")


FAMILIES = {family: module_of(family).FUNCTIONS for family in LAZY_FAMILIES}


def test_every_family_of_functions_is_loaded_with_the_registry_or_is_lazy() -> None:
    folder = Path(__file__).parents[2] / "engine" / "expressions"
    defining = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if "aggregates" not in path.parts
        and re.search(r"^FUNCTIONS\b.* = ", path.read_text("utf-8"), re.MULTILINE)
    }
    eager = {family.__name__.removeprefix("runnel.expressions.") for family in _FAMILIES}
    assert defining - {"functions"} == eager | set(LAZY_FAMILIES), (
        "name the module in _FAMILIES of engine/expressions/functions.py, or among LAZY_FAMILIES "
        "of engine/expressions/lazy_families.py"
    )


@pytest.mark.parametrize("module", LAZY_FAMILIES)
def test_a_name_leads_to_its_family_before_any_other(module: str) -> None:
    for function in FAMILIES[module]:
        assert next(families_with(_spelled_key(function.name)), None) == module, (
            f'write "{function.name}" in quotes in {module}, not as parts of a text: a look-up '
            "searches the source for it"
        )
        for name in function.sql_names:
            assert next(families_with(_spelled_sql_name(name)), None) == module, (
                f'write "{name}" in quotes in {module}: a look-up searches the source for it'
            )


@pytest.mark.parametrize("module", LAZY_FAMILIES)
def test_functions_are_found_by_key_and_name(module: str) -> None:
    for function in FAMILIES[module]:
        assert FUNCTIONS[function.name].name == function.name
        assert all(SQL_NAMES[name].name == function.name for name in function.sql_names)
        assert FUNCTIONS[function.name].is_slow is (function.is_slow or module in SLOW_FAMILIES)


def test_no_two_functions_have_one_name() -> None:
    functions = [
        item for family in (*_FAMILIES, *map(module_of, LAZY_FAMILIES)) for item in family.FUNCTIONS
    ]
    keys = [item.name for item in functions]
    names = [name for item in functions for name in item.sql_names]
    assert sorted(keys) == sorted(set(FUNCTIONS))
    assert sorted(names) == sorted(set(SQL_NAMES))
    assert len(FUNCTIONS) == len(keys)
    assert len(SQL_NAMES) == len(names)


def test_what_is_no_name_is_not_found() -> None:
    for name in ("", '"', "nothing", "NOTHING", "Levenshtein", "LEVENSHTEIN", "FUNCTIONS"):
        assert name not in FUNCTIONS
        assert SQL_NAMES.get(name) is None or name == "LEVENSHTEIN"
    assert "levenshtein" not in SQL_NAMES


def test_without_sources_all_families_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_families, "_source", lambda module: None)
    registry = FunctionRegistry(_key_of, _spelled_key)
    assert registry["levenshtein"].sql_names == ("LEVENSHTEIN", "EDITDIST3")
    assert "nothing" not in registry


def test_every_name_is_called_in_an_slt_file() -> None:
    text = "\n".join(path.read_text("utf-8") for path in SLT.glob("*/*.slt")).upper()
    words = set(re.findall(r"[A-Z][A-Z0-9_]*(?=\s*\()", text))
    lazy = {name for family in FAMILIES.values() for item in family for name in item.sql_names}
    assert sorted(lazy - words) == []


def loaded_after(sql: str) -> set[str]:
    """The lazy families that a new process has loaded after a statement."""
    code = (
        f"import sys, runnel\nrunnel.connect().cursor().execute({sql!r}).fetchall()\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    return set(LAZY_FAMILIES) & {name.removeprefix("runnel.expressions.") for name in loaded}


@pytest.mark.parametrize(
    ("sql", "families"),
    [
        ("SELECT 1 + 1", set()),
        ("SELECT UPPER('a'), COUNT(*), ROUND(1.5)", set()),
        ("SELECT LEVENSHTEIN('a', 'b'), editdist3('a', 'c')", {"text.rare_strings"}),
        ("SELECT TO_DAYS(2)", {"time.make_dates"}),
        ("SELECT DAY(DATE '2024-02-03')", {"time.dates", "time.make_dates"}),
    ],
)
def test_a_statement_imports_the_families_that_it_calls(sql: str, families: set[str]) -> None:
    assert loaded_after(sql) == families


LISTS = Rows(
    a=(array(BIGINT), [[3, 1, None, 1], [], None, [5], [None], [2, 2, 2**40]]),
    b=(array(BIGINT), [[1], [1, 2], [3], None, [None, 5], [2, 7]]),
    n=(BIGINT, [1, None, 2, 5, -1, 2]),
    m=(BIGINT, [2, 3, None, 1, 1, 6]),
)


@pytest.mark.parametrize(
    ("name", "columns", "sql"),
    [
        ("ARRAY_CONTAINS", "an", "CASE WHEN n IS NOT NULL THEN list_contains(a, n) END"),
        ("ARRAY_POSITION", "an", "list_position(a, n)"),
        ("ARRAY_DISTINCT", "a", "list_sort(list_distinct(a))"),
        ("ARRAY_SORT", "a", "list_sort(a, 'ASC', 'NULLS FIRST')"),
        ("ARRAY_REVERSE_SORT", "a", "list_sort(a, 'DESC', 'NULLS LAST')"),
        ("ARRAY_REVERSE", "a", "list_reverse(a)"),
        ("ARRAY_HAS_ANY", "ab", "list_has_any(a, b)"),
        ("ARRAY_SUM", "a", "list_sum(a)::BIGINT"),
        ("ARRAY_AVG", "a", "list_avg(a)"),
        ("ARRAY_MIN", "a", "list_min(a)"),
        ("ARRAY_MAX", "a", "list_max(a)"),
        ("CARDINALITY", "a", "len(a)"),
        ("eq", "ab", "a = b"),
        ("ne", "ab", "a <> b"),
        ("is_distinct", "ab", "a IS DISTINCT FROM b"),
    ],
)
def test_lists_like_duckdb(name: str, columns: str, sql: str) -> None:
    expression = call(name, [LISTS[column] for column in columns])
    if name == "ARRAY_DISTINCT":
        expression = call("ARRAY_SORT", [expression])
    assert_like_duckdb(LISTS, expression, sql)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.lists(st.none() | st.integers(-3, 3), max_size=5),
            st.none() | st.integers(-7, 7),
            st.none() | st.integers(-7, 7),
            st.none() | st.integers(-3, 3),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_lists_like_python(rows: list[tuple[Any, Any, Any, Any]]) -> None:
    lists, first, last, item = (list(column) for column in zip(*rows, strict=True))
    table = Rows(a=(array(BIGINT), lists), i=(BIGINT, first), j=(BIGINT, last), v=(BIGINT, item))
    a, i, j, v = (table[name] for name in "aijv")

    def sliced(values: Any, begin: Any, end: Any) -> Any:
        if values is None:
            return None
        low, high = (1 if begin is None else begin), (len(values) if end is None else end)
        low, high = (bound + len(values) + 1 if bound < 0 else bound for bound in (low, high))
        return [value for place, value in enumerate(values, 1) if low <= place <= high]

    assert table.run(call("array_slice", [a, i, j])) == [sliced(*row[:3]) for row in rows]
    assert table.run(call("ARRAY_APPEND", [a, v])) == [[*(row[0] or []), row[3]] for row in rows]
    assert table.run(call("ARRAY_PREPEND", [v, a])) == [[row[3], *(row[0] or [])] for row in rows]
    removed = [
        None if row[0] is None else [value for value in row[0] if value != row[3]] for row in rows
    ]
    assert table.run(call("ARRAY_REMOVE", [a, v])) == removed
    joined = [None if row[0] is None else row[0] * 2 for row in rows]
    assert table.run(call("ARRAY_CAT", [a, a])) == joined


@settings(max_examples=examples(200), deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_json_survives_reading_and_writing(value: Any) -> None:
    written = json_text.write(json_text.parse(json.dumps(value)))
    assert json.loads(written) == value
    assert compile_path("$")(value) == [value]


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "[1,]", "{'a':1}", "-Infinity", "01", '"\t"', "[" * 100_000]
)
def test_what_is_no_json(text: str) -> None:
    assert not json_text.is_json(text)


PEOPLE = json_text.parse(
    '{"p":[{"n":"Ann","a":30,"t":["x","y"]},{"n":"Bob","a":17.5},{"n":"Cy","a":null}],"total":3,'
    '"odd name":{"k":true}}'
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.total", [3]),
        ("$.p[0].n", ["Ann"]),
        ("$.p[*].n", ["Ann", "Bob", "Cy"]),
        ("$.p[-1].n", ["Cy"]),
        ("$.p[last].n", ["Cy"]),
        ("$.p[last - 1].n", ["Bob"]),
        ("$.p[0,2].n", ["Ann", "Cy"]),
        ("$.p[0 to 1].n", ["Ann", "Bob"]),
        ("$.p[1:].n", ["Bob", "Cy"]),
        ("$.p[:1].n", ["Ann"]),
        ("$..n", ["Ann", "Bob", "Cy"]),
        ("$..t[1]", ["y"]),
        ("$['odd name'].k", [True]),
        ('$."odd name".*', [True]),
        ("$['total','nothing']", [3]),
        ("$.p[?(@.a > 20)].n", ["Ann"]),
        ("$.p?(@.a < 20 || @.n == 'Cy').n", ["Bob", "Cy"]),
        ("$.p?(@.a >= 17.5 && !(@.n == 'Bob')).n", ["Ann"]),
        ("$.p?(@.t).n", ["Ann"]),
        ("$.p?(exists(@.t[1])).n", ["Ann"]),
        ('$.p?(@.n like_regex "^[AB]").n', ["Ann", "Bob"]),
        ("$.p?(@.a == null).n", ["Cy"]),
        ("$.p?($.total == 3).n", ["Ann", "Bob", "Cy"]),
        ("lax $.p[7]", []),
        ("$.nothing.more", []),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    assert compile_path(path)(PEOPLE) == found


@pytest.mark.parametrize(
    "path",
    ["", "a", "$.", "$[", "$[a]", "$.a[1", "$?(", "$?(@.a >)", "$.a b", "$.f()", "$..", "$[1 to]"],
)
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(DataError, match="invalid JSON path"):
        compile_path(path)


@pytest.mark.parametrize(
    ("value", "pattern", "text"),
    # As PostgreSQL's documentation has them.
    [
        (Decimal("-0.1"), "99.99", "  -.10"),
        (Decimal("-0.1"), "FM9.99", "-.1"),
        (Decimal("0.1"), "0.9", " 0.1"),
        (12, "9990999.9", "    0012.0"),
        (12, "FM9990999.9", "0012."),
        (485, "999", " 485"),
        (-485, "999", "-485"),
        (485, "9 9 9", " 4 8 5"),
        (1485, "9,999", " 1,485"),
        (1485, "9G999", " 1,485"),
        (Decimal("148.5"), "999.999", " 148.500"),
        (Decimal("148.5"), "FM999.999", "148.5"),
        (Decimal("148.5"), "FM999.990", "148.500"),
        (Decimal("148.5"), "999D999", " 148.500"),
        (Decimal("3148.5"), "9G999D999", " 3,148.500"),
        (-485, "999S", "485-"),
        (-485, "999MI", "485-"),
        (485, "999MI", "485 "),
        (485, "FM999MI", "485"),
        (485, "PL999", "+ 485"),
        (485, "SG999", "+485"),
        (-485, "SG999", "-485"),
        (-485, "999PR", "<485>"),
        (485, "RN", "        CDLXXXV"),
        (485, "FMRN", "CDLXXXV"),
        (482, "999th", " 482nd"),
        (485, '"Good number:"999', "Good number: 485"),
        (12, "99V999", " 12000"),
        (Decimal("12.4"), "99V999", " 12400"),
        (Decimal("12.45"), "99V9", " 125"),
        (Decimal("0.0004859"), "9.99EEEE", " 4.86e-04"),
        (12345, "999", " ###"),
        (float("nan"), "99", " ##"),
    ],
)
def test_numbers_by_pattern(value: Any, pattern: str, text: str) -> None:
    assert char_numbers.text_of(value, pattern) == text


@settings(max_examples=examples(100), deadline=None)
@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_moments_by_pattern_and_back(moment: datetime) -> None:
    rows = Rows(t=(TIMESTAMP, [moment]))
    pattern = "YYYY-MM-DD HH24:MI:SS.US|DDD|FMMonth|HH12 AM|ID|IYYY-IW"
    wanted = moment.strftime("%m-%d %H:%M:%S.%f|%j|%B|%I %p|%u|")
    year, week, _ = moment.isocalendar()
    assert rows.run(call("TO_CHAR", [rows["t"], literal(pattern)])) == [
        f"{moment.year:04}-{wanted}{year:04}-{week:02}"
    ]
    text = moment.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    back = call("TO_TIMESTAMP", [literal(text), literal("YYYY-MM-DD HH24:MI:SS.US")])
    assert Rows().run(back) == [moment.replace(tzinfo=UTC)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | st.uuids(), max_size=10), st.integers(0, 3))
def test_uuids_there_and_back(values: list[UUID | None], skipped: int) -> None:
    texts = array_of(values, SQL_UUID).slice(skipped)
    stored = to_storage(texts)
    stored.validate(full=True)
    assert stored.to_pylist() == values[skipped:]
    assert from_storage(stored).equals(texts)


def test_uuids_come_and_go_as_arrows_type() -> None:
    one = UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    with runnel.connect() as connection:
        column = pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([one.bytes, None], pa.binary(16))
        )
        connection.register("t", pa.table({"u": column}))
        cursor = connection.cursor()
        assert cursor.execute("SELECT u FROM t WHERE u = ?", (one,)).fetchall() == [(one,)]
        table = cursor.execute("SELECT u FROM t ORDER BY u").fetch_arrow_table()
        assert table.schema.field("u").type == pa.uuid()
        assert table["u"].to_pylist() == [None, one]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.none() | st.text("0123456789+-.eExX ", max_size=6), min_size=1, max_size=200))
def test_try_cast_is_cast_where_that_works(texts: list[str | None]) -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        connection.register("t", pa.table({"s": pa.array(texts, pa.string())}))
        tried = [row[0] for row in cursor.execute("SELECT TRY_CAST(s AS DOUBLE) FROM t").fetchall()]
        for text, value in zip(texts, tried, strict=True):
            try:
                wanted = cursor.execute("SELECT CAST(? AS DOUBLE)", (text,)).fetchall()[0][0]
            except runnel.DataError:
                wanted = None
            assert value == wanted


NUMBERS = Rows(
    x=(BIGINT, [12, -18, 0, None, 2**62, 7]),
    y=(BIGINT, [18, 12, 5, 1, 2**61, 0]),
)


@pytest.mark.parametrize(
    ("name", "columns", "sql"),
    [
        ("GCD", "xy", "gcd(x, y)"),
        ("bit_and", "xy", "x & y"),
        ("bit_or", "xy", "x | y"),
        ("XOR", "xy", "xor(x, y)"),
        ("bit_not", "x", "~x"),
        ("BIT_COUNT", "x", "bit_count(x)::INT"),
        ("TO_HEX", "y", "to_hex(y)"),
    ],
)
def test_integers_like_duckdb(name: str, columns: str, sql: str) -> None:
    assert_like_duckdb(
        NUMBERS, call(name, [NUMBERS[column] for column in columns]), sql, relative=1e-12
    )


TEXTS = Rows(
    s=(VARCHAR, ["foobarbaz", "", "a1b22", None, "ÄÖa", "x'y"]),
    p=(VARCHAR, ["o", "a", "z", "q", "Ö", None]),
)


@pytest.mark.parametrize(
    ("name", "arguments", "sql"),
    [
        ("TRANSLATE", ("s", "'abo'", "'xy'"), "translate(s, 'abo', 'xy')"),
        ("MD5", ("s",), "md5(s)"),
        ("SHA256", ("s",), "sha256(s)"),
        ("HEX", ("s",), "hex(s)"),
        ("TO_BASE64", ("s",), "base64(s::BLOB)"),
        ("STRIP_ACCENTS", ("s",), "strip_accents(s)"),
        (
            "REGEXP_EXTRACT",
            ("s", "'([a-z])([0-9]+)'", "2"),
            "regexp_extract(s, '([a-z])([0-9]+)', 2)",
        ),
        ("REGEXP_EXTRACT_ALL", ("s", "'[a-z]'"), "regexp_extract_all(s, '[a-z]')"),
        ("REGEXP_FULL_MATCH", ("s", "'[a-z0-9]*'"), "regexp_full_match(s, '[a-z0-9]*')"),
        ("CONTAINS", ("s", "p"), "contains(s, p)"),
    ],
)
def test_texts_like_duckdb(name: str, arguments: tuple[str, ...], sql: str) -> None:
    if name == "TO_BASE64":  # DuckDB takes a text for escaped bytes
        rows = Rows(s=(VARCHAR, ["foo", "", None]))
        assert_like_duckdb(rows, call(name, [rows["s"]]), sql)
        return
    bound = [
        TEXTS[item]
        if item in ("s", "p")
        else literal(item[1:-1] if item.startswith("'") else int(item))
        for item in arguments
    ]
    assert_like_duckdb(TEXTS, call(name, bound), sql)


MOMENTS = Rows(
    a=(
        TIMESTAMP,
        [
            datetime(2020, 2, 29, 23, 59, 59),
            datetime(1969, 12, 31, 1),
            None,
            datetime(1999, 12, 31),
        ],
    ),
    b=(
        TIMESTAMP,
        [datetime(2021, 3, 1), datetime(1970, 1, 1), datetime(2000, 1, 1), datetime(2000, 1, 3)],
    ),
)


@pytest.mark.parametrize(
    "unit", ["second", "minute", "hour", "day", "month", "quarter", "year", "decade", "century"]
)
def test_date_diff_like_duckdb(unit: str) -> None:
    expression = call("DATE_DIFF", [literal(unit), MOMENTS["a"], MOMENTS["b"]])
    assert_like_duckdb(MOMENTS, expression, f"date_diff('{unit}', a, b)")


@pytest.mark.parametrize(
    "name",
    ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "QUARTER", "WEEK", "DAYOFYEAR", "ISODOW"],
)
def test_parts_like_duckdb(name: str) -> None:
    assert_like_duckdb(MOMENTS, call(name, [MOMENTS["a"]]), f"{name}(a)")


def test_names_and_last_days_like_duckdb() -> None:
    for name in ("DAYNAME", "MONTHNAME", "LAST_DAY"):
        argument = call("date_trunc", [literal("day"), MOMENTS["a"]])
        if name == "LAST_DAY":
            rows = Rows(
                d=(runnel.sqltypes.DATE, [date(2020, 2, 1), date(1900, 2, 28), None, date(1, 1, 1)])
            )
            assert_like_duckdb(rows, call(name, [rows["d"]]), "last_day(d)")
        else:
            assert_like_duckdb(MOMENTS, call(name, [argument]), f"{name}(a)")


def test_dates_that_there_are_not() -> None:
    for name, arguments in (
        ("MAKE_DATE", (2021, 2, 29)),
        ("MAKE_DATE", (0, 1, 1)),
        ("MAKE_DATE", (2021, 13, 1)),
        ("MAKE_TIME", (24, 0, 0)),
        ("FACTORIAL", (34,)),
        ("FACTORIAL", (-1,)),
        ("LCM", (2**62, 3)),
        ("GCD", (-(2**63), 1)),
    ):
        with pytest.raises(DataError):
            Rows().run(call(name, [literal(item) for item in arguments]))
    assert Rows().run(call("MAKE_TIME", [literal(23), literal(59), literal(59.5)])) == [
        time(23, 59, 59, 500000)
    ]
    assert Rows().run(call("TO_DAYS", [literal(3)])) == [timedelta(days=3)]


def test_a_literal_that_is_wrong_is_told_with_its_place() -> None:
    with runnel.connect() as connection:
        for sql, message in (
            ("SELECT JSON_VALUE('{}', '$[')", "invalid JSON path"),
            ("SELECT REGEXP_MATCH('a', '(')", "invalid regular expression"),
            ("SELECT X'0g'", "is not a binary value"),
        ):
            with pytest.raises(ProgrammingError, match=message) as caught:
                connection.cursor().execute(sql)
            assert caught.value.position is not None


@pytest.mark.parametrize("zeros", [[0.0, -0.0, 0.0], [-0.0, 0.0, -0.0]])
def test_texts_of_zeros_do_not_depend_on_the_rows_before(
    cursor: runnel.Cursor, zeros: list[float]
) -> None:
    cursor.connection.register("z", pa.table({"f": zeros}))
    texts = ["-0.0" if copysign(1, zero) < 0 else "0.0" for zero in zeros]
    sql = (
        "SELECT FORMAT('%s', f), CAST(JSON_ARRAY(f) AS VARCHAR), TO_CHAR(f, 'FM9.0EEEE'), "
        "CAST(f AS VARCHAR) FROM z"
    )
    assert cursor.execute(sql).fetchall() == [
        (text, f"[{text}]", "0.0e+00", text) for text in texts
    ]


def test_a_pattern_of_a_row_that_is_wrong(cursor: runnel.Cursor) -> None:
    cursor.connection.register("p", pa.table({"s": ["x", "y"], "p": ["x|z", "("]}))
    assert cursor.execute("SELECT s SIMILAR TO p FROM p WHERE s = 'x'").fetchall() == [(True,)]
    with pytest.raises(DataError, match=r"invalid SIMILAR TO pattern '\(': missing \)") as caught:
        cursor.execute("SELECT s SIMILAR TO p FROM p").fetchall()
    assert caught.value.position is not None


@pytest.mark.parametrize("call", ["s SIMILAR TO p", "REGEXP_FULL_MATCH(s, p)"])
def test_patterns_of_rows_take_linear_time(cursor: runnel.Cursor, call: str) -> None:
    texts = ["a" * 100 + "b", "a" * 100, "a\n", None]
    cursor.connection.register("p", pa.table({"s": texts, "p": ["(a+)+", "(a|a)*", "a", "("]}))
    assert cursor.execute(f"SELECT {call} FROM p WHERE s IS NOT NULL").fetchall() == [
        (False,),
        (True,),
        (False,),
    ]
