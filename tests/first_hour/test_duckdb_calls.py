"""Calls of DuckDB's connection: the same in both, or an error that names the remedy."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pandas as pd
import pytest

import runnel
from runnel.results.calls import REMEDIES
from tests.waiting import eventually


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        yield connection


def both(call: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What a call returns on new connections of Runnel and of DuckDB."""
    with runnel.connect() as one, duckdb.connect() as other:
        for connection in (one, other):
            connection.execute("CREATE TABLE t (a INT, b VARCHAR)")
            connection.execute("INSERT INTO t VALUES (1, 'x'), (2, NULL)")
        return call(one), call(other)


def appended(con: Any) -> Any:
    con.append("t", pd.DataFrame({"a": [3], "b": ["z"]}))
    con.append("t", pd.DataFrame({"b": ["y"], "a": [4]}), by_name=True)
    return con.execute("FROM t ORDER BY a").fetchall()


def transactions(con: Any) -> Any:
    con.begin()
    con.execute("DELETE FROM t")
    con.rollback()
    con.begin()
    con.execute("DELETE FROM t WHERE a = 1")
    con.commit()
    return con.execute("FROM t").fetchall()


def extracted(con: Any) -> Any:
    found = con.extract_statements(
        "SELECT ?, ?; WITH x AS (SELECT 7 AS a) INSERT INTO t (a) FROM x;; -- end\n"
        "CREATE TABLE z (a INT); UPDATE t SET a = $n; BEGIN; (SELECT 1); SHOW TABLES; DROP TABLE z"
    )
    kinds = [
        (item.query.strip().strip(";"), item.type.name, item.named_parameters) for item in found
    ]
    con.execute(found[1])
    return kinds, con.execute(found[0], [1, 2]).fetchall(), con.execute("FROM t").fetchall()


def chunks(con: Any) -> Any:
    con.execute("SELECT i, 'x' || i AS s FROM range(5000) r(i)")
    found = [con.fetch_df_chunk() for _ in range(3)]
    found.append(con.execute("SELECT i FROM range(5000) r(i)").fetch_df_chunk(2))
    return [(len(frame), frame.iloc[0].tolist()) for frame in found]


CALLS: list[Callable[[Any], Any]] = [
    appended,
    transactions,
    extracted,
    chunks,
    lambda c: c.get_table_names("WITH q AS (FROM u) SELECT * FROM t, s.v JOIN q ON a IN (FROM w)"),
    lambda c: c.get_table_names("FROM t, s.\"V w\", 'f.csv', range(3)", qualified=True),
    lambda c: c.get_table_names("INSERT INTO t (a) SELECT a FROM t"),
    lambda c: c.table_function("range", [2, 5]).fetchall(),
    lambda c: [str(c.sqltype(name)) for name in ("INT", "VARCHAR", "DATE")],
    lambda c: [str(c.list_type("DATE")), str(c.decimal_type(5, 2)).replace(" ", "")],
    lambda c: c.load_extension("json"),
]


@pytest.mark.parametrize("call", CALLS)
def test_as_duckdb(call: Callable[[Any], Any]) -> None:
    one, other = both(call)
    assert one == other


def test_types_of_functions(con: runnel.Connection) -> None:
    con.create_function(
        "twice", lambda s: [s["x"], s["x"]], [con.struct_type({"x": "INT"})], con.list_type("INT")
    )
    assert con.sql("SELECT twice({'x': 4})").fetchall() == [([4, 4],)]
    assert str(con.map_type("VARCHAR", "INT")) == "MAP(VARCHAR, INTEGER)"
    assert runnel.list_type(runnel.sqltypes.BIGINT) == con.list_type(int)
    with pytest.raises(runnel.InterfaceError, match="no collation"):
        con.string_type("NOCASE")


def test_syntax_errors_of_extracted_statements(con: runnel.Connection) -> None:
    text = "SELECT 1;\nSELEC 2"
    with pytest.raises(runnel.ParserException) as error:
        con.extract_statements(text)
    assert error.value.position is not None and error.value.position.line == 2
    assert runnel.extract_statements("SELECT 1")[0].type is runnel.StatementType.SELECT
    assert con.extract_statements(" -- nothing") == []


def test_interrupt(con: runnel.Connection) -> None:
    con.register_stream("quiet", {"a": "BIGINT"})
    waiting, ready = con.execute("FROM quiet"), con.execute("SELECT 1")
    raised: list[BaseException] = []

    def fetch() -> None:
        try:
            waiting.fetchone()
        except runnel.Error as error:
            raised.append(error)

    thread = Thread(target=fetch)
    thread.start()
    assert eventually(lambda: waiting._is_used)
    con.interrupt()
    thread.join(30)
    assert isinstance(raised[0], runnel.InterruptException)
    assert ready.fetchall() == [(1,)] and con.execute("SELECT 2").fetchall() == [(2,)]
    con.interrupt()


READ = [
    {"sep": ";"},
    {"sep": ";", "header": 0},
    {"sep": ";", "na_values": "NA"},
    {"sep": ";", "na_values": ["NA", "x"]},
    {"sep": ";", "dtype": {"id": "VARCHAR"}},
    {"sep": ";", "dtype": ["VARCHAR", "VARCHAR", "DATE"]},
    {"sep": ";", "skiprows": 1, "header": False},
    {"sep": ";", "quotechar": '"', "escapechar": '"'},
    {"sep": ";", "names": ["u", "v", "w"]},
    {"sep": ";", "columns": {"q": "INT", "r": "VARCHAR", "s": "DATE"}},
    {"sep": ";", "all_varchar": True, "parallel": True, "sample_size": -1},
    {"sep": ";", "date_format": "%Y-%m-%d", "encoding": "utf-8", "compression": "none"},
    {"sep": ";", "union_by_name": True, "ignore_errors": True, "hive_partitioning": False},
]


@pytest.mark.parametrize("options", READ)
def test_options_of_read_csv(
    con: runnel.Connection, tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id;name;d\n1;x;2020-01-02\n2;NA;2020-01-03\n")
    with duckdb.connect() as oracle:
        expected = oracle.read_csv(path, **options)
        found = con.read_csv(path, **options)
        assert (found.columns, found.fetchall()) == (expected.columns, expected.fetchall())
        assert con.from_csv_auto(path, **options).columns == expected.columns


def test_a_file_object_is_no_path(con: runnel.Connection) -> None:
    with pytest.raises(runnel.InterfaceError, match=r"con\.from_arrow"):
        con.read_csv(io.StringIO("a\n1\n"))  # type: ignore[arg-type]
    with pytest.raises(runnel.InterfaceError, match="skiprows"):
        con.read_csv("f.csv", header=2)


WRITTEN = [
    "CREATE TABLE t (a INT PRIMARY KEY)",
    "INSERT INTO t VALUES (1), (2)",
    "INSERT INTO t VALUES (2), (3) ON CONFLICT DO NOTHING",
    "UPDATE t SET a = a + 10 WHERE a > 1",
    "DELETE FROM t WHERE a = 1",
    "BEGIN",
    "INSERT INTO t SELECT * FROM range(20, 25)",
    "COMMIT",
    "CREATE TABLE u AS FROM t",
    "COPY t TO 'copied.csv'",
    "TRUNCATE u",
    "SET threads = 2",
    "CREATE VIEW v AS FROM t",
    "DROP VIEW v",
]


def test_the_rows_of_a_write_are_their_number(
    con: runnel.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`con.execute` only: cursors raise, as PEP 249 has it."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as other:
        for sql in WRITTEN:
            expected = other.execute(sql).fetchall()
            found = con.execute(sql)
            assert found.fetchone() == (expected[0] if expected else None), sql
            assert found.fetchall() == [], sql
            assert con.execute("SELECT 1").fetchall() == [(1,)]
        many = "INSERT INTO t VALUES (?)"
        con.executemany(many, [[30], [31]])
        assert con.fetchall() == [(2,)] and con.fetchall() == []
    written = con.execute("INSERT INTO t VALUES (40)")
    assert written.rowcount == con.rowcount == 1
    assert written.description is None
    assert written.df().to_dict("list") == {"Count": [1]}
    with pytest.raises(runnel.InterfaceError, match="RETURNING"):
        con.cursor().execute("INSERT INTO t VALUES (41)").fetchall()


def test_extensions(con: runnel.Connection) -> None:
    con.install_extension("parquet")
    with pytest.raises(runnel.NotSupportedError, match="pip install"):
        con.load_extension("httpfs")


NAMES = [name for name in dir(duckdb.DuckDBPyConnection) if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_each_call_of_duckdb_is_there_or_has_a_remedy(con: runnel.Connection, name: str) -> None:
    if name in REMEDIES:
        with pytest.raises(AttributeError, match="; write "):
            getattr(con, name)
    else:
        assert hasattr(con, name) and hasattr(runnel, name)


OF_THE_MODULE = [name for name in dir(duckdb) if not name.startswith("_")]
WITHOUT_REMEDY = frozenset(
    "ExpectedResultType RenderMode Statement UnionType build_info token_type".split()
)


@pytest.mark.parametrize("name", OF_THE_MODULE)
def test_each_name_of_the_module_is_there_or_has_a_remedy(name: str) -> None:
    if not hasattr(runnel, name) and name not in WITHOUT_REMEDY:
        with pytest.raises(AttributeError, match="; write "):
            getattr(runnel, name)
