"""Calls of the Python API that users of DuckDB write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
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
    r = con.sql("FROM 'f.csv'")  # noqa: F841 - SQL reads it
    assert con.sql("DESCRIBE r").fetchall()[0][:2] == ("id", "BIGINT")
    assert len(con.sql("FROM r").fetchall()) == 2
    with pytest.raises(runnel.Error, match="read only once"):
        con.sql("FROM r").fetchall()


def test_rows_that_were_fetched_are_not_left_out(con: runnel.Connection) -> None:
    r = con.sql("FROM 'f.csv'")
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
    cursor = con.sql("FROM 'f.csv'")
    with pytest.raises(AttributeError, match=r"SELECT \* FROM r WHERE"):
        cursor.filter("id = 1")
    with pytest.raises(AttributeError, match=r"con.execute\(sql\).fetchall"):
        con.fetchall()
    with pytest.raises(AttributeError, match=r"write con\.sql"):
        con.query("SELECT 1")
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
