"""Expressions as objects, and the methods that reshape relations: the same calls in Runnel and in
DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pytest

import runnel

DATA = (
    "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 1.5::DOUBLE, [1, 2]), (2, 'b', 2.5, [3]), "
    "(3, 'a', NULL, [4])) v(n, k, d, l)"
)


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.execute(DATA)
        yield connection


@pytest.fixture
def oracle() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute(DATA)
        yield connection


Call = Callable[[Any, Any], Any]
"""A call with the module and the relation of the table."""

EXPRESSIONS: tuple[Call, ...] = (
    lambda m, t: t.select(m.ColumnExpression("n"), m.ColumnExpression("k").alias("word")),
    lambda m, t: t.select((m.ColumnExpression("n") + 1).alias("m"), (2 * m.col("n")).alias("x")),
    lambda m, t: t.select((m.col("n") - 1).alias("a"), (10 - m.col("n")).alias("b")),
    lambda m, t: t.select((m.col("n") % 2).alias("a"), (-m.col("n")).alias("b")),
    lambda m, t: t.select((m.col("n") // 2).alias("a"), (m.col("n") ** 2).alias("b")),
    lambda m, t: t.select((m.col("d") / 2).alias("a")),
    lambda m, t: t.filter(m.ColumnExpression("n") > 1),
    lambda m, t: t.filter((m.col("n") > 1) & (m.col("k") == "a") | (m.col("n") == 1)),
    lambda m, t: t.filter(~(m.col("n") >= 2)),
    lambda m, t: t.filter(m.col("d").isnull()),
    lambda m, t: t.filter(m.col("d").isnotnull() & (m.col("k") != "b")),
    lambda m, t: t.filter(m.col("n").isin(1, 3)),
    lambda m, t: t.filter(m.col("n").isnotin(1, 3)),
    lambda m, t: t.filter(m.col("n").between(2, 3) & m.col("k").like("%a%")),
    lambda m, t: t.filter(m.col("t", "n") < m.lit(2)),
    lambda m, t: t.select(m.StarExpression(exclude=["l", "d"])),
    lambda m, t: t.select(m.StarExpression(), m.ConstantExpression("it's").alias("c")),
    lambda m, t: t.select(m.FunctionExpression("upper", m.col("k")).alias("u")),
    lambda m, t: t.select(
        m.CaseExpression(m.col("n") == 1, "one").when(m.col("n") == 2, "two").otherwise("more")
        .alias("c")
    ),
    lambda m, t: t.select(m.CaseExpression(m.col("n") == 1, 5).alias("c")),
    lambda m, t: t.select(m.CoalesceOperator(m.col("d"), 0.5).alias("c")),
    lambda m, t: t.select(m.SQLExpression("n + 1").alias("c")),
    lambda m, t: t.select(
        m.FunctionExpression(
            "list_transform", m.col("l"), m.LambdaExpression("x", m.ColumnExpression("x") + 1)
        ).alias("c")
    ),
    lambda m, t: t.select(m.col("n").cast("VARCHAR").alias("a")),
    lambda m, t: t.select(m.col("k").try_cast("INT").alias("b")),
    lambda m, t: t.aggregate([m.FunctionExpression("sum", m.col("n")).alias("s")]),
    lambda m, t: t.aggregate([m.col("k"), m.col("n").sum().alias("s")]).order("k"),
    lambda m, t: t.order(m.col("d").desc().nulls_last()).select("n"),
    lambda m, t: t.sort(m.col("k").asc(), m.col("n").desc()).select("n"),
    lambda m, t: t.with_columns(m=m.col("n") * 2, k=m.FunctionExpression("upper", m.col("k"))),
    lambda m, t: t.group_by("k").agg("sum(n)").order("k"),
    lambda m, t: t.group_by(m.col("k")).agg(m.col("n").max().alias("top")).order("k"),
    lambda m, t: t.unnest("l").order("n"),
    lambda m, t: t.select("k", "n").pivot("k", ["a", "b"], "sum(n)"),
    lambda m, t: t.project("k, n, n + 1 AS o").unpivot("n", "o").order("k, name, value"),
    lambda m, t: t.select("k", "n").unpivot("n", name="x", value="y").order("k, y"),
    lambda m, t: t.select_types(["DOUBLE", "VARCHAR"]),
    lambda m, t: t.select_dtypes(["DOUBLE"]),
    lambda m, t: t.apply("sum", "n", "k", "", "k").order("k"),
    lambda m, t: t.sample(3).aggregate("count(*) AS c"),
    lambda m, t: t.materialize().filter("n > 1"),
    lambda m, t: t.distinct("k").select("k").order("k"),
)  # fmt: skip


@pytest.mark.parametrize("call", EXPRESSIONS)
def test_as_duckdb(con: runnel.Connection, oracle: Any, call: Call) -> None:
    found = call(runnel, con.table("t"))
    expected = call(duckdb, oracle.table("t"))
    assert found.fetchall() == expected.fetchall()
    assert [name.lower() for name in found.columns] == expected.columns


CONSTANTS = [
    *(None, True, 0, -5, 2**40, 1.5, -1e300, "x", "it's", "", b"\x00ab", [1, 2], []),
    *(date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5, 6), time(1, 2, 3), Decimal("1.50")),
    *(UUID(int=7), {"a": 1, "b": "x"}, [{"a": None}], float("inf")),
]


@pytest.mark.parametrize("value", CONSTANTS, ids=str)
def test_constants(con: runnel.Connection, value: Any) -> None:
    found = con.sql("SELECT 1 AS a").select(runnel.ConstantExpression(value)).fetchone()
    assert found == (value,)


def test_an_expression_has_no_truth_value(con: runnel.Connection) -> None:
    a = runnel.col("a")
    with pytest.raises(TypeError, match="combine conditions"):
        assert (a > 1) and (a < 5)
    with pytest.raises(AttributeError, match="FunctionExpression"):
        a.nope  # noqa: B018
    with pytest.raises(runnel.InterfaceError, match="as a parameter"):
        runnel.lit(object())
    assert (str(a.alias("x")), a.alias("x").get_name(), str(runnel.col("a b"))) == (
        "a",
        "x",
        '"a b"',
    )


def test_rows_are_updated_by_expressions(con: runnel.Connection) -> None:
    con.table("t").update({"n": runnel.col("n") + 10, "k": "z"}, condition=runnel.col("n") == 3)
    assert con.sql("SELECT n, k FROM t WHERE n > 9").fetchall() == [(13, "z")]


def test_a_sample_with_a_seed(con: runnel.Connection) -> None:
    rows = con.sql("SELECT i FROM range(1000) r(i)")
    first, second = (rows.sample(percent=10, seed=5).fetchall() for _ in range(2))
    assert first == second and 20 < len(first) < 300
    with pytest.raises(runnel.InterfaceError, match="percent=5"):
        rows.sample()


def test_rows_of_one_run(con: runnel.Connection) -> None:
    assert list(con.table("t").select("n").iter_rows(batch_size=2)) == [(1,), (2,), (3,)]


def test_explain_analyze(con: runnel.Connection) -> None:
    for plan in (con.table("t").explain(analyze=True), con.table("t").explain("analyze")):
        assert "rows" in plan


def test_options_of_files(con: runnel.Connection, oracle: Any, tmp_path: Path) -> None:
    options = [
        {"sep": ";", "header": False, "na_rep": "NULL", "overwrite": True},
        {"quoting": 1, "quotechar": "'", "escapechar": "'"},
        {"date_format": "%d.%m.%Y", "timestamp_format": "%Y", "encoding": "utf-8"},
    ]
    query = "SELECT n, k, d, DATE '2020-01-02' AS day, TIMESTAMP '2020-01-02 03:04:05' AS ts FROM t"
    for number, option in enumerate(options):
        one, other = tmp_path / f"{number}.csv", tmp_path / f"{number}.duckdb.csv"
        con.sql(query).to_csv(one, **option)
        oracle.sql(query).to_csv(str(other), **option)
        assert one.read_text() == other.read_text()
    con.sql("SELECT n, k FROM t").write_parquet(
        tmp_path / "f.parquet", compression="zstd", row_group_size=2
    )
    assert con.read_parquet(tmp_path / "f.parquet").shape == (3, 2)
    con.sql("SELECT n, k FROM t").to_parquet(tmp_path / "parts", partition_by=["k"])
    found = con.read_parquet(str(tmp_path / "parts" / "**" / "*.parquet"), hive_partitioning=True)
    assert found.aggregate("k, sum(n)").order("k").fetchall() == [("a", 4), ("b", 2)]
    with pytest.raises(runnel.Error, match=r"(?i)nope"):
        con.sql("FROM t").write_csv(tmp_path / "x.csv", nope=1)


def test_what_cursors_lack(con: runnel.Connection) -> None:
    with pytest.raises(AttributeError, match=r"cursor\.connection\.read_csv"):
        con.cursor().read_csv("f.csv")
    with pytest.raises(AttributeError, match="fetchnumpy"):
        con.table("t").torch()


LEFT_OUT = {"bitstring_agg", "preview", "tf", "torch", "type"}
NAMES = [name for name in dir(duckdb.DuckDBPyRelation) if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_each_method_of_duckdb_is_there(con: runnel.Connection, name: str) -> None:
    assert hasattr(con.table("t"), name) is (name not in LEFT_OUT)
