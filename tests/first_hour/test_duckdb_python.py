"""Calls of the Python API that users of DuckDB write."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel


@pytest.fixture
def con(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[runnel.Connection]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.csv").write_text("id,name\n1,a\n2,b\n")
    with runnel.connect() as connection:
        yield connection


def test_a_cursor_is_a_table_of_the_next_statement(con: runnel.Connection) -> None:
    r = con.sql("SELECT id, name FROM 'f.csv'")
    r = con.sql("SELECT max(id) AS top FROM r")  # noqa: F841 - SQL reads it
    assert con.sql("SELECT top + 1 FROM r").fetchall() == [(3,)]


def test_the_rows_of_a_cursor_are_read_once(con: runnel.Connection) -> None:
    r = con.execute("FROM 'f.csv'")  # noqa: F841 - SQL reads it
    assert con.sql("DESCRIBE r").fetchall()[0][:2] == ("id", "BIGINT")
    assert len(con.sql("FROM r").fetchall()) == 2
    with pytest.raises(runnel.Error, match="read only once"):
        con.sql("FROM r").fetchall()


def test_rows_that_were_fetched_are_not_left_out(con: runnel.Connection) -> None:
    r = con.execute("FROM 'f.csv'")
    r.fetchone()
    with pytest.raises(runnel.InterfaceError, match="were fetched already") as error:
        con.sql("FROM r")
    assert "r = r.arrow()" in str(error.value)


def test_a_cursor_without_rows_is_no_table(con: runnel.Connection) -> None:
    r = con.sql("CREATE TABLE t (a INT)")
    assert r.columns == [] and r.types == []
    with pytest.raises(runnel.ProgrammingError, match='"r" not found'):
        con.sql("FROM r")


def test_columns_and_types(con: runnel.Connection) -> None:
    r = con.sql("SELECT 1 AS a, 'x' AS b, CAST(1 AS DECIMAL(5, 2)) AS c")
    assert r.columns == ["a", "b", "c"]
    assert [str(item) for item in r.types] == ["TINYINT", "VARCHAR", "DECIMAL(5, 2)"]


def test_numpy(con: runnel.Connection) -> None:
    found = con.sql("SELECT * FROM (VALUES (1, 'a', 1.5), (NULL, NULL, NULL)) AS t(i, s, d)")
    arrays = found.fetchnumpy()
    assert arrays["i"].tolist() == [1, None] and arrays["i"].dtype.kind == "i"
    assert arrays["s"].tolist() == ["a", None]
    assert con.sql("SELECT * FROM range(3) AS r(i)").fetchnumpy()["i"].tolist() == [0, 1, 2]


def test_rows_are_written_as_files(con: runnel.Connection) -> None:
    frame = pd.DataFrame({"k": [1, 2], "v": ["a", "b"]})  # noqa: F841 - SQL reads it
    assert con.sql("FROM frame").write_parquet("it's.parquet") == 2
    assert con.sql("FROM frame").write_csv(Path("f2.csv")) == 2
    for file in ("it''s.parquet", "f2.csv"):
        assert con.sql(f"FROM '{file}' ORDER BY k").fetchall() == [(1, "a"), (2, "b")]
    assert con.sql("SELECT name FROM (SHOW TABLES)").fetchall() == []


def test_calls_of_a_connection(con: runnel.Connection) -> None:
    con.execute("CREATE TABLE t (a INT, b VARCHAR)")
    assert con.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, "y")]).rowcount == 2
    assert con.table("t").fetchall() == [(1, "x"), (2, "y")]
    assert con.table("information_schema.tables").columns[0] == "table_catalog"
    assert con.read_csv("f.csv").fetchall() == [(1, "a"), (2, "b")]
    columns = {"x": "INTEGER", "y": "VARCHAR"}
    found = con.read_csv(["f.csv"], header=True, columns=columns, nullstr="b")
    assert found.columns == ["x", "y"] and found.fetchall() == [(1, "a"), (2, None)]
    con.sql("FROM 'f.csv'").write_parquet("f.parquet")
    assert con.read_parquet("f.parquet").fetchone() == (1, "a")
    with pytest.raises(runnel.InterfaceError, match="class object"):
        con.read_csv("f.csv", delim=object())


def test_calls_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"a": 1}\n')
    assert runnel.read_json(tmp_path / "m.json").fetchall() == [(1,)]
    assert runnel.execute("SELECT 2").fetchone() == (2,)


@pytest.mark.parametrize("name", ["fetchdf", "to_df", "to_arrow_table", "fetch_arrow_reader"])
def test_other_names(con: runnel.Connection, name: str) -> None:
    found = getattr(con.sql("FROM 'f.csv'"), name)()
    assert "id" in str(getattr(found, "schema", found))


def test_what_to_write_instead(con: runnel.Connection) -> None:
    cursor = con.execute("FROM 'f.csv'")
    with pytest.raises(AttributeError, match=r"con.sql\(query\).filter"):
        cursor.filter("id = 1")
    with pytest.raises(AttributeError, match=r"con.cursor\(\)"):
        con.duplicate()
    with pytest.raises(AttributeError, match=r"has no attribute 'nope'$"):
        con.nope  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'nope'$"):
        cursor.nope  # noqa: B018
    assert not hasattr(runnel, "nope")


def test_the_shape_waits_for_all_rows_and_leaves_them(con: runnel.Connection) -> None:
    cursor = con.execute("SELECT * FROM range(20000) AS r(i)")
    assert cursor.shape == (20000, 1)
    assert cursor.fetchone() == (0,)
    assert cursor.shape == (20000, 1)
    assert len(cursor.fetchall()) == 19999
    assert cursor.shape == (20000, 1)
    assert con.execute("CREATE TABLE t (a INT)").shape == (0, 0)
    con.register_stream("s", {"a": "BIGINT"})
    with pytest.raises(runnel.NotSupportedError, match="no number of rows"):
        con.sql("FROM s").shape  # noqa: B018


def test_arguments_by_keyword(con: runnel.Connection) -> None:
    assert con.sql("SELECT ?", params=[1]).fetchone() == (1,)
    assert con.query("SELECT $a", params={"a": 2}).fetchone() == (2,)
    assert con.execute("SELECT ?", parameters=[3]).fetchone() == (3,)
    assert runnel.sql("SELECT ?", params=[4]).fetchone() == (4,)
    assert runnel.query("SELECT ?", [5]).fetchone() == (5,)
    with pytest.raises(runnel.InterfaceError, match="passed twice"):
        con.sql("SELECT ?", [1], params=[1])


def test_rows_of_frames_and_tables(con: runnel.Connection) -> None:
    table = pa.table({"a": [1, 2]})
    assert con.from_arrow(table).fetchall() == [(1,), (2,)]
    assert con.from_df(table.to_pandas()).fetchall() == [(1,), (2,)]
    assert runnel.from_arrow(table).columns == ["a"]
    assert runnel.arrow(table).fetchone() == runnel.from_df(table.to_pandas()).fetchone() == (1,)
    r = con.from_arrow(pa.table({"a": range(200_000)}))  # noqa: F841 - SQL reads it
    assert con.sql("SELECT count(*), max(a) FROM r").fetchall() == [(200_000, 199_999)]
    assert con.sql("SELECT name FROM (SHOW TABLES)").fetchall() == []


def test_polars_frames(con: runnel.Connection) -> None:
    polars = pytest.importorskip("polars")
    assert isinstance(con.sql("SELECT 1 AS a").pl(lazy=True), polars.LazyFrame)
    assert con.sql("SELECT 1 AS a").pl(lazy=True).collect().rows() == [(1,)]


def plus(a: int, b: int | None) -> int | None:
    return None if b is None else a + b


def test_a_function_has_the_types_of_its_annotations(con: runnel.Connection) -> None:
    con.create_function("plus_py", plus)
    assert con.sql("SELECT plus_py(1, 2), plus_py(1, NULL)").fetchall() == [(3, None)]

    def described(n: int, x: float, s: str, b: bool, d: date, t: datetime) -> str:
        return repr((n, x, s, b, d, t))

    con.create_function("described", described)
    (found,) = con.sql(
        "SELECT described(1, 2.5, 'a', TRUE, DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05')"
    ).fetchone() or ("",)
    assert found == repr((1, 2.5, "a", True, date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5)))

    def nested(values: list[int], amount: Decimal) -> list[str]:
        return [str(value * amount) for value in values]

    con.create_function("nested", nested)
    assert con.sql("SELECT nested([1, 2], 1.5)").fetchall() == [(["1.500", "3.000"],)]


def test_options_of_duckdb(con: runnel.Connection) -> None:
    calls = []

    def passed(x: int) -> int:
        calls.append(x)
        return x

    con.create_function("native", passed, ["BIGINT"], "BIGINT", type="native")
    query = "FROM (VALUES (1), (NULL)) AS v (a) SELECT count({}(a))"
    assert con.sql(query.format("native")).fetchall() == [(1,)] and calls == [1]
    con.create_function(
        "special", lambda x: 0 if x is None else x, ["BIGINT"], "BIGINT",
        type="native", null_handling="special", side_effects=True,
    )  # fmt: skip
    assert con.sql(query.format("special")).fetchall() == [(2,)]
    con.create_function("arrays", pc.negate, parameters=["BIGINT"], return_type=int, type="arrow")
    assert con.sql("SELECT arrays(5)").fetchall() == [(-5,)]
    con.remove_function("arrays")
    with pytest.raises(runnel.ProgrammingError, match="arrays"):
        con.sql("SELECT arrays(5)")


def test_a_function_receives_values_as_in_duckdb(con: runnel.Connection) -> None:
    functions: list[tuple[str, Any, str, dict[str, Any]]] = [
        ("backwards", lambda s: s[::-1], "VARCHAR", {}),
        ("size", len, "BIGINT", {}),
        ("inverse", lambda s: 1 // (len(s) - 2), "BIGINT", {"exception_handling": "return_null"}),
        ("known", lambda s: s is not None, "BOOLEAN", {"null_handling": "special"}),
    ]
    with duckdb.connect() as oracle:
        for name, function, result, options in functions:
            for one in (con, oracle):
                one.create_function(name, function, ["VARCHAR"], result, **options)
            query = f"SELECT {name}(s) FROM (VALUES ('abc'), ('xy'), (NULL)) AS v (s)"
            assert con.sql(query).fetchall() == oracle.sql(query).fetchall()

    def of_arrays(s: pa.Array) -> pa.Array:
        return pc.utf8_upper(s)

    con.create_function("of_arrays", of_arrays, ["VARCHAR"], "VARCHAR")
    con.create_function(
        "by_type",
        lambda s: s if isinstance(s, pa.Array) else None,
        ["VARCHAR"],
        "VARCHAR",
        type="arrow",
    )
    con.create_function("of_kernels", pc.utf8_upper, ["VARCHAR"], "VARCHAR")
    rows = con.sql(
        "SELECT of_arrays(s), of_kernels(s), by_type(s) FROM (VALUES ('ab'), ('c')) AS v (s)"
    )
    assert rows.fetchall() == [("AB", "AB", "ab"), ("C", "C", "c")]


def test_what_a_function_lacks(con: runnel.Connection) -> None:
    con.create_function("lower_py", lambda text: text.lower(), ["VARCHAR"], "VARCHAR", type="arrow")
    with pytest.raises(runnel.DataError, match="without type='arrow'"):
        con.sql("SELECT lower_py('A')").fetchall()
    with pytest.raises(runnel.InterfaceError, match='type of parameter "x" of the function'):
        con.create_function("f", lambda x: x)
    with pytest.raises(runnel.InterfaceError, match="type of the result"):
        con.create_function("f", lambda x: x, ["BIGINT"])
    with pytest.raises(runnel.InterfaceError, match="'native' or 'arrow'"):
        con.create_function("f", plus, type="fast")
    with pytest.raises(runnel.InterfaceError, match="'default' or 'special'"):
        con.create_function("f", plus, null_handling="x")
    with pytest.raises(runnel.NotSupportedError, match="exception_handling"):
        con.create_function("f", plus, exception_handling="return_null", type="arrow")
    with pytest.raises(runnel.InterfaceError, match="'default' or 'return_null'"):
        con.create_function("f", plus, exception_handling="x")
    with pytest.raises(runnel.InterfaceError, match="no argument 'nul'"):
        con.create_function("f", plus, nul="skip")  # type: ignore[call-arg]


def test_a_cursor_that_was_read_says_how_to_keep_rows(con: runnel.Connection) -> None:
    r = con.execute("FROM 'f.csv'")  # noqa: F841 - SQL reads it
    con.sql("FROM r").fetchall()
    with pytest.raises(runnel.OperationalError, match=r"r = r\.arrow\(\) of a cursor"):
        con.sql("FROM r").fetchall()
