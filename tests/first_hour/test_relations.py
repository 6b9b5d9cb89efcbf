"""The relational API of DuckDB's Python package: the same calls in Runnel and in DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pandas as pd
import pytest

import runnel
from runnel.results.relational.calls import AGGREGATES, WINDOWS

DATA = (
    "CREATE TABLE t AS SELECT * FROM "
    "(VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, 'a', NULL)) v(n, k, d)"
)
OTHER = "CREATE TABLE u AS SELECT * FROM (VALUES (1, 'one'), (3, 'three'), (4, 'four')) v(n, word)"


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.execute(DATA)
        connection.execute(OTHER)
        yield connection


@pytest.fixture
def oracle() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute(DATA)
        connection.execute(OTHER)
        yield connection


CALLS: tuple[Callable[[Any], Any], ...] = (
    lambda c: c.table("t"),
    lambda c: c.table("t").filter("n > 1").filter("k = 'a' -- end"),
    lambda c: c.table("t").filter("t.n > 1").project("n + 1 AS m, k"),
    lambda c: c.table("t").select("n", "k").order("n DESC").limit(2),
    lambda c: c.table("t").order("n").limit(1, 1),
    lambda c: c.sql("SELECT * FROM t;").sort("k DESC", "n"),
    lambda c: c.table("t").aggregate("k, sum(n) AS s").order("k"),
    lambda c: c.table("t").aggregate("sum(n) AS s", "k").order("s"),
    lambda c: c.table("t").aggregate("max(n)"),
    lambda c: c.table("t").filter("n > 5").aggregate("count(*) AS n"),
    lambda c: c.table("t").project("k").distinct().order("k"),
    lambda c: c.table("t").unique("k").order("k"),
    lambda c: c.table("t").union(c.table("t")).order("n"),
    lambda c: c.table("t").union(c.table("t")).except_(c.table("t")).order("n"),
    lambda c: c.table("t").intersect(c.sql("FROM t WHERE n < 3")).order("n"),
    lambda c: c.table("t").join(c.table("u"), "n").order("n"),
    lambda c: c.table("t").join(c.table("u"), "t.n = u.n", how="left").select("t.n, word")
    .order("n"),
    lambda c: c.table("t").set_alias("x").join(c.table("t").set_alias("y"), "x.n = y.n + 1")
    .filter("x.n > 1").select("x.n, y.k").order("n"),
    lambda c: c.table("t").join(c.table("u"), "n", "semi").order("n"),
    lambda c: c.table("t").join(c.table("u"), "n", how="anti").order("n"),
    lambda c: c.table("t").project("k").cross(c.table("u").project("word")).order("k, word"),
    lambda c: c.table("t").sum("n"),
    lambda c: c.table("t").max("n", groups="k", projected_columns="k").order("k"),
    lambda c: c.table("t").max("n", "k").order("1"),
    lambda c: c.table("t").count("d"),
    lambda c: c.table("t").mean("n"),
    lambda c: c.table("t").median("n"),
    lambda c: c.table("t").string_agg("k", sep="|"),
    lambda c: c.table("t").sum("n", window_spec="OVER (ORDER BY n)", projected_columns="n")
    .order("n"),
    lambda c: c.table("t").row_number("OVER (ORDER BY n DESC)", "n").order("n"),
    lambda c: c.table("t").n_tile("OVER (ORDER BY n)", 2, "n").order("n"),
    lambda c: c.table("t").lag("n", "OVER (ORDER BY n)", 1, "0", projected_columns="n").order("n"),
    lambda c: c.table("t").value_counts("k").order("k"),
    lambda c: c.table("t").query("v", "SELECT max(n) AS top FROM v"),
    lambda c: c.sql("SELECT ? AS a, ? AS b", params=[1, "x"]).filter("a = 1"),
    lambda c: c.sql("SELECT ? AS a", params=[1])
    .union(c.sql("SELECT ? AS a", params=[2])).order("a"),
    lambda c: c.sql("SELECT $1 AS a", params=[1])
    .union(c.sql("SELECT $1 AS a", params=[2])).order("a"),
    lambda c: c.values([1, "a"]),
    lambda c: c.values((1, "a"), (2, "b")),
    lambda c: c.from_query("SELECT 1 AS a").set_alias("q").filter("q.a = 1"),
    lambda c: c.from_df(pd.DataFrame({"a": [1, 2]})).filter("a > 1"),
    lambda c: c.view("t").rename(n="m").drop("d").order("m"),
    lambda c: c.table("t").head(2).offset(1),
    lambda c: c.table("t")["n"].order("n"),
    lambda c: c.table("t").k.order("k"),
    lambda c: c.sql("FROM t", alias="x").filter("x.n > 1").order("n"),
    lambda c: c.query("FROM t WHERE n = ?", params=[1], alias="x").project("x.n"),
    lambda c: c.register("v", pd.DataFrame({"a": [1]})) and c.table("v"),
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_the_same_as_duckdb(
    con: runnel.Connection, oracle: Any, call: Callable[[Any], Any]
) -> None:
    found, expected = call(con), call(oracle)
    assert found.fetchall() == expected.fetchall()
    assert found.columns == expected.columns
    assert len(found) == len(expected) and found.shape == expected.shape


def test_columns_of_a_relation(con: runnel.Connection) -> None:
    table = con.table("t")
    assert "n" in table and "z" not in table
    assert table.fetchone() == (1, "a", 1.5)
    assert (2, "b", 2.5) in con.execute("FROM t")
    with pytest.raises(TypeError, match="not subscriptable"):
        con.execute("FROM t")["n"]
    with pytest.raises(AttributeError, match="'z'"):
        table.z  # noqa: B018


def test_a_relation_can_run_again(con: runnel.Connection) -> None:
    r = con.sql("SELECT n FROM t ORDER BY n")
    assert con.sql("SELECT sum(n) FROM r").fetchall() == [(6,)]
    assert r.fetchall() == r.fetchall() == [(1,), (2,), (3,)]
    assert r.df()["n"].tolist() == r.arrow()["n"].to_pylist() == [1, 2, 3]
    assert con.sql("SELECT max(n) FROM r").fetchall() == [(3,)]
    assert con.sql("DESCRIBE r").fetchall()[0][0] == "n"
    r = con.sql("SELECT n FROM t ORDER BY n")
    assert (r.fetchone(), r.fetchmany(5), r.fetchone()) == ((1,), [(2,), (3,)], None)
    con.execute("INSERT INTO t VALUES (9, 'z', 0)")
    assert con.sql("SELECT max(n) FROM r").fetchall() == [(9,)]
    assert r.filter("n > 3").fetchall() == [(9,)] and list(r) == []
    cursor = con.execute("SELECT n FROM t")
    assert len(cursor.fetchall()) == 4 and cursor.fetchall() == []


def test_a_relation_has_the_frames_of_its_code(con: runnel.Connection) -> None:
    def of(number: int) -> runnel.Cursor:
        frame = pd.DataFrame({"v": [number]})  # noqa: F841 - SQL reads it
        return con.sql("SELECT v FROM frame")

    both = of(1).union(of(2)).order("v")
    assert both.fetchall() == both.fetchall() == [(1,), (2,)]
    above = con.sql("SELECT v FROM both WHERE v > 1")
    del both
    assert above.fetchall() == above.fetchall() == [(2,)]


def test_parameters_of_one_name(con: runnel.Connection) -> None:
    one, two = (con.sql("SELECT $x AS a", params={"x": number}) for number in (1, 2))
    assert one.cross(two.project("a AS b")).fetchall() == [(1, 2)]


def test_a_write_runs_once(con: runnel.Connection) -> None:
    written = con.sql("INSERT INTO t VALUES (7, 'q', 0) RETURNING n")
    with pytest.raises(runnel.InterfaceError, match="does not run again"):
        written.filter("n > 0")
    assert written.fetchall() == [(7,)] and written.fetchall() == []
    assert con.table("t").filter("n = 7").count("*").fetchone() == (1,)


def test_statements(con: runnel.Connection, tmp_path: Any) -> None:
    table = con.table("t")
    table.insert([8, "w", 0.5])
    table.update({"k": "x'"}, condition="n = 8")
    table.filter("n = 8").create("eight")
    table.filter("n = 1").insert_into("eight")
    assert con.table("eight").order("n").fetchall() == [(1, "a", 1.5), (8, "x'", 0.5)]
    assert table.filter("n < 3").create_view("small").order("n").fetchall()[1] == (2, "b", 2.5)
    with pytest.raises(runnel.ProgrammingError, match="exists already"):
        table.to_table("eight")
    assert "Scan t" in table.explain()
    assert table.sql_query() == 'FROM "t"'
    assert table.select("n").map(lambda frame: frame + 1).order("n").fetchone() == (2,)
    assert table.select("n").order("n").limit(1).to_dicts() == [{"n": 1}]
    table.write_csv(tmp_path / "t.csv")
    assert con.read_csv(tmp_path / "t.csv").filter("n = 8").fetchone() == (8, "x'", 0.5)


def test_errors_come_from_the_call(con: runnel.Connection) -> None:
    table = con.table("t")
    with pytest.raises(runnel.ProgrammingError, match='column "x" does not exist'):
        table.filter("x > 1")
    with pytest.raises(runnel.InterfaceError, match="both relations have the name"):
        table.join(con.table("t"), "n")
    with pytest.raises(runnel.InterfaceError, match="a join is one of"):
        table.join(con.table("u"), "n", how="near")
    with pytest.raises(runnel.InterfaceError, match="texts in SQL"):
        table.filter(1)
    with pytest.raises(runnel.InterfaceError, match="the other relation"):
        table.union(5)
    with pytest.raises(runnel.InterfaceError, match="write sum"):
        table.sum()
    with pytest.raises(AttributeError, match='did you mean "filter"'):
        table.filtre("n")
    with pytest.raises(runnel.InterfaceError, match="relation of a table"):
        table.filter("n > 1").insert([1, "a", 2])


def test_what_a_prompt_shows_runs_nothing(con: runnel.Connection) -> None:
    later = con.table("t").filter("n > 1")
    assert repr(later).startswith("a relation: show() or a fetch runs SELECT")
    assert con.jobs() == []
    assert "2 rows" in later._repr_mimebundle_()["text/plain"]


def test_relations_of_a_stream(con: runnel.Connection) -> None:
    writer = con.register_stream("s", {"v": "BIGINT"})
    above = con.sql("FROM s").filter("v > 1").project("v * 10 AS w")
    assert above.columns == ["w"]
    writer.write([(1,), (2,)])
    assert above.fetchone() == (20,)
    with pytest.raises(runnel.InterfaceError, match="reads a stream"):
        con.sql("SELECT w + 1 FROM above")
    with pytest.raises(TypeError, match="no len"):
        len(above)


def test_each_aggregate_has_a_method(con: runnel.Connection) -> None:
    two = {"arg_max", "arg_min"}
    texts = {"string_agg"}
    booleans = {"bool_and", "bool_or"}
    for name in AGGREGATES:
        column = "k" if name in texts else "n > 1" if name in booleans else "n"
        more = ("k",) if name in two else ()
        if name in ("first_value", "last_value", "lag", "lead"):
            more = ("OVER (ORDER BY n)",)
        if name == "nth_value":
            more = ("OVER (ORDER BY n)", 1)
        getattr(con.table("t"), name)(column, *more).fetchall()
    for name in WINDOWS:
        more = (2,) if name == "n_tile" else ()
        assert len(getattr(con.table("t"), name)("OVER (ORDER BY n)", *more).fetchall()) == 3


def test_the_query_of_a_relation_occurs_once(con: runnel.Connection, oracle: Any) -> None:
    def described(c: Any) -> Any:
        query = 'SELECT ? AS a, n AS "select", k AS "a b" FROM t WHERE n > ?'
        return c.sql(query, params=[1, 0]).describe()

    assert described(con).fetchall() == described(oracle).fetchall()
    assert described(con).columns == described(oracle).columns


def test_a_join_of_a_join_names_all_relations(con: runnel.Connection, oracle: Any) -> None:
    def joined(c: Any) -> Any:
        first, second, third = (c.table("t").set_alias(name) for name in "xyz")
        both = first.join(second, "x.n = y.n").join(third, "x.n = z.n", "left")
        return both.aggregate("count(*), sum(z.n)")

    assert joined(con).fetchall() == joined(oracle).fetchall()


def test_frames_of_one_name_in_two_relations(con: runnel.Connection) -> None:
    base = con.sql("SELECT 1 AS a")
    found = []
    for number in (1, 2):
        frame = pd.DataFrame({"v": [number]})  # noqa: F841 - SQL reads it
        found.append(base.query("x", "SELECT v FROM frame"))
    assert [item.fetchall() for item in found] == [[(1,)], [(2,)]]


def test_names_of_tables_are_not_names_of_frames(con: runnel.Connection) -> None:
    for number in range(200):
        con.execute(f"CREATE VIEW rows_{number} AS SELECT 7 AS v")
        con.execute(f"CREATE VIEW relation_{number} AS SELECT 8 AS v")
    assert con.from_df(pd.DataFrame({"v": [1]})).filter("v > 0").fetchall() == [(1,)]
    one, two = (con.sql("SELECT $1 AS v", params=[number]) for number in (1, 2))
    assert one.union(two).order("v").fetchall() == [(1,), (2,)]


def test_an_insert_after_with_runs_once(con: runnel.Connection) -> None:
    text = "WITH x(n) AS (SELECT 7) -- ')'\nINSERT INTO t (n) SELECT n FROM x RETURNING n"
    written = con.sql(text)
    assert (written.fetchall(), written.fetchall()) == ([(7,)], [])
    with pytest.raises(runnel.InterfaceError, match="does not run again"):
        written.filter("n > 0")
    assert con.table("t").filter("n = 7").count("*").fetchone() == (1,)
    again = con.sql("WITH x(n) AS (SELECT 'INSERT (') SELECT n FROM x")
    assert again.fetchall() == again.fetchall() == [("INSERT (",)]


def test_columns_that_are_reserved_words(con: runnel.Connection) -> None:
    con.execute('CREATE TABLE "order" AS SELECT 1 AS "select", 2 AS "from"')
    table = con.table("order")
    assert table.rename(select="where").columns == ["where", "from"]
    assert table.drop("from").fetchall() == [(1,)]
    table.update({"from": 5}, condition='"select" = 1')
    table.insert([3, 4])
    table.filter('"select" = 1').create("group")
    assert con.sql('FROM "group"').fetchall() == [(1, 5)]


def test_a_relation_whose_table_has_changed(con: runnel.Connection) -> None:
    r = con.sql("FROM t")
    for change in ("ADD COLUMN z INT", "ALTER n TYPE VARCHAR"):
        assert len(con.sql("FROM r").fetchall()) == 3
        con.execute(f"ALTER TABLE t {change}")
        with pytest.raises(runnel.OperationalError, match="columns of a relation have changed"):
            con.sql("FROM r").fetchall()
    assert con.sql("SELECT n FROM r ORDER BY n").fetchone() == ("1",)
    assert r.columns == ["n", "k", "d", "z"]


def test_show_after_a_fetch_runs_again(capsys: pytest.CaptureFixture[str]) -> None:
    with runnel.connect() as connection:
        relation = connection.sql("SELECT * FROM range(2) AS r(n)")
        relation.df()
        relation.show()
        assert "2 rows" in capsys.readouterr().out
