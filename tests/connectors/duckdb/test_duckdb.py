"""DuckDB tables through SQL: types, keys, transactions, files that others hold or have damaged."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

import runnel
from runnel import Connection
from runnel.connectors.arrow import duckdb_relation as arrow_relation
from runnel.connectors.duckdb import sink as duckdb_sink


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        yield connection


def made(path: Path, *statements: str) -> Path:
    """A database file in which the statements were run."""
    with duckdb.connect(str(path)) as own:
        for statement in statements:
            own.execute(statement)
    return path


def mapped(
    con: Connection, path: Path, table: str = "t", columns: str = "", **options: str
) -> None:
    given = {"path": str(path), "table": table, **options}
    texts = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    con.execute(f"CREATE OR REPLACE MAPPING {table} {columns} TYPE DuckDB OPTIONS ({texts})")


def rows(con: Connection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


def in_file(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path), read_only=True) as own:
        return own.execute(sql).fetchall()


TYPES: dict[str, tuple[str, str, Any]] = {
    "HUGEINT": ("-12345678901234567890123", "DECIMAL(38, 0)", Decimal("-12345678901234567890123")),
    "UHUGEINT": ("12345678901234567890123", "DECIMAL(38, 0)", Decimal("12345678901234567890123")),
    "UBIGINT": ("18446744073709551615", "DECIMAL(20, 0)", Decimal("18446744073709551615")),
    "UINTEGER": ("4294967295", "BIGINT", 4294967295),
    "USMALLINT": ("65535", "INTEGER", 65535),
    "UTINYINT": ("255", "SMALLINT", 255),
    "ENUM('a', 'b')": ("'b'", "VARCHAR", "b"),
    "UUID": (
        "'6f1b0000-0000-4000-8000-0000000000ff'",
        "UUID",
        UUID("6f1b0000-0000-4000-8000-0000000000ff"),
    ),
    "TIMESTAMP_S": ("'2024-02-29 01:02:03'", "TIMESTAMP", datetime(2024, 2, 29, 1, 2, 3)),
    "TIMESTAMP_MS": (
        "'2024-02-29 01:02:03.004'",
        "TIMESTAMP",
        datetime(2024, 2, 29, 1, 2, 3, 4000),
    ),
    "TIMESTAMP_NS": (
        "'2024-02-29 01:02:03.000004'",
        "TIMESTAMP",
        datetime(2024, 2, 29, 1, 2, 3, 4),
    ),
    "FLOAT": ("1.5", "REAL", 1.5),
    "BLOB": (r"'\x00\xFF'", "VARBINARY", b"\x00\xff"),
    "JSON": ("""'{"a": 1}'""", "JSON", '{"a": 1}'),
    "INTERVAL": (
        "INTERVAL '1 month 1 day 2 seconds'",
        "INTERVAL",
        runnel.Interval(1, 1, 2_000_000),
    ),
    "DECIMAL(18, 3)": ("1.234", "DECIMAL(18, 3)", Decimal("1.234")),
    "INTERVAL[]": (
        "[INTERVAL '2 days', NULL]",
        "INTERVAL[]",
        [timedelta(days=2), None],
    ),
    "INTEGER[]": ("[1, NULL]", "INTEGER[]", [1, None]),
    "INTEGER[2]": ("[1, 2]", "INTEGER[]", [1, 2]),
    "UBIGINT[]": ("[18446744073709551615]", "DECIMAL(20, 0)[]", [Decimal("18446744073709551615")]),
    "STRUCT(a UTINYINT, b DATE)": (
        "{a: 1, b: '2024-01-01'}",
        "ROW(a SMALLINT, b DATE)",
        {"a": 1, "b": date(2024, 1, 1)},
    ),
    "MAP(VARCHAR, HUGEINT)": ("MAP {'k': 5}", "MAP(VARCHAR, DECIMAL(38, 0))", {"k": Decimal(5)}),
}


def test_a_column_of_each_type_is_read_and_written(con: Connection, tmp_path: Path) -> None:
    literals, sql_types, values = zip(*TYPES.values(), strict=True)
    columns = [f"v{number}" for number in range(len(TYPES))]
    definitions = ", ".join(f"{column} {duck}" for column, duck in zip(columns, TYPES, strict=True))
    given = f"INSERT INTO t VALUES ({', '.join(literals)}), ({', '.join(['NULL'] * len(TYPES))})"
    path = made(tmp_path / "f.duckdb", f"CREATE TABLE t ({definitions})", given)
    mapped(con, path)
    assert [row[1] for row in rows(con, "SHOW COLUMNS FROM t")][: len(TYPES)] == [*sql_types]
    assert rows(con, "SELECT * FROM t") == [values, (None,) * len(TYPES)]
    con.execute("INSERT INTO t SELECT * FROM t")
    for column in columns:
        con.execute(f"UPDATE t SET {column} = {column} WHERE {column} IS NOT NULL")
    con.close()
    parts = zip(columns, TYPES, literals, strict=True)
    equal = [
        f"count(*) FILTER ({column} = CAST({literal} AS {duck}))" for column, duck, literal in parts
    ]
    nulls = [f"count(*) FILTER ({column} IS NULL)" for column in columns]
    assert in_file(path, f"SELECT {', '.join([*equal, *nulls])} FROM t") == [(2,) * 2 * len(TYPES)]


@pytest.mark.parametrize("duck", ["BIT", "TIMETZ", "UNION(a INTEGER, b VARCHAR)", "BIGNUM"])
def test_a_type_without_counterpart_is_refused_by_name(
    con: Connection, tmp_path: Path, duck: str
) -> None:
    path = made(tmp_path / "f.duckdb", f"CREATE TABLE t (id INTEGER, strange {duck})")
    with pytest.raises(runnel.NotSupportedError) as caught:
        mapped(con, path)
    assert 'column "strange" of table "t" of database file' in caught.value.message
    assert "declare the columns that you need" in (caught.value.hint or "")
    mapped(con, path, columns="(id INTEGER)")
    assert con.execute("INSERT INTO t VALUES (1)").rowcount == 1
    assert rows(con, "SELECT * FROM t") == [(1,)]


def test_intervals_with_months_are_no_days(con: Connection, tmp_path: Path) -> None:
    path = made(
        tmp_path / "f.duckdb",
        "CREATE TABLE t (i INTERVAL)",
        "INSERT INTO t VALUES (INTERVAL '2 months')",
    )
    mapped(con, path, columns="(i INTERVAL DAY TO SECOND)")
    with pytest.raises(runnel.DataError, match="has months"):
        rows(con, "SELECT i FROM t")
    mapped(con, path)
    assert rows(con, "SELECT i FROM t") == [(runnel.Interval(2),)]
    mapped(con, path, columns="(i INTERVAL YEAR TO MONTH)")
    assert rows(con, "SELECT i FROM t") == [(runnel.Interval(2),)]
    con.execute("INSERT INTO t VALUES (INTERVAL '1-1' YEAR TO MONTH)")
    con.close()
    assert in_file(path, "SELECT CAST(i AS VARCHAR) FROM t") == [("2 months",), ("1 year 1 month",)]


def test_a_number_beyond_38_digits_is_a_data_error(con: Connection, tmp_path: Path) -> None:
    path = made(
        tmp_path / "f.duckdb", "CREATE TABLE t (v HUGEINT)", f"INSERT INTO t VALUES ({2**127 - 1})"
    )
    mapped(con, path)
    with pytest.raises(runnel.DataError):
        rows(con, "SELECT v FROM t")


def test_a_key_of_duckdbs_own(con: Connection, tmp_path: Path) -> None:
    path = made(tmp_path / "f.duckdb", "CREATE TABLE t (k INTEGER PRIMARY KEY, v VARCHAR NOT NULL)")
    mapped(con, path)
    con.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    with pytest.raises(runnel.IntegrityError):
        con.execute("INSERT INTO t VALUES (3, 'c'), (1, 'again')")
    assert rows(con, "SELECT * FROM t ORDER BY k") == [(1, "a"), (2, "b")]
    assert con.execute("SINK INTO t VALUES (3, 'c'), (1, 'again')").rowcount == 2
    assert rows(con, "SELECT * FROM t ORDER BY k") == [(1, "again"), (2, "b"), (3, "c")]
    with pytest.raises(runnel.IntegrityError):
        con.execute("UPDATE t SET v = NULL")
    with pytest.raises(runnel.IntegrityError):
        con.execute("INSERT INTO t (k) VALUES (9)")
    assert con.execute("UPDATE t SET v = v || '!' WHERE k > 1").rowcount == 2
    assert con.execute("DELETE FROM t WHERE k = 1").rowcount == 1
    assert rows(con, "SELECT * FROM t ORDER BY k") == [(2, "b!"), (3, "c!")]


def test_what_is_not_listed_takes_duckdbs_default(con: Connection, tmp_path: Path) -> None:
    path = made(tmp_path / "f.duckdb", "CREATE TABLE t (a INTEGER, b VARCHAR DEFAULT 'none')")
    mapped(con, path)
    con.execute("INSERT INTO t (a) VALUES (1)")
    assert rows(con, "SELECT * FROM t") == [(1, "none")]


def test_a_view_of_the_file_is_read_only(con: Connection, tmp_path: Path) -> None:
    path = made(tmp_path / "f.duckdb", "CREATE VIEW v AS SELECT range AS n FROM range(3)")
    mapped(con, path, "v")
    assert rows(con, "SELECT sum(n) FROM v") == [(3,)]
    assert rows(con, "SELECT is_insertable_into FROM information_schema.tables") == [("NO",)]
    for statement in ("INSERT INTO v VALUES (1)", "DELETE FROM v", "UPDATE v SET n = 1"):
        with pytest.raises(runnel.NotSupportedError):
            con.execute(statement)


def test_columns_that_are_left_out_get_the_default_of_the_table(
    con: Connection, tmp_path: Path
) -> None:
    create = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR DEFAULT 'd', w INT)"
    mapped(con, made(tmp_path / "a.duckdb", create))
    con.execute("INSERT INTO t (id) VALUES (1)")
    con.execute("INSERT INTO t VALUES (2, 'x', 3)")
    con.execute("SINK INTO t (id) VALUES (2)")
    assert sorted(rows(con, "SELECT * FROM t")) == [(1, "d", None), (2, "x", 3)]


def test_a_column_called_rowid(con: Connection, tmp_path: Path) -> None:
    path = made(
        tmp_path / "f.duckdb", "CREATE TABLE t (rowid VARCHAR)", "INSERT INTO t VALUES ('mine')"
    )
    mapped(con, path)
    assert rows(con, "SELECT rowid FROM t") == [("mine",)]
    assert con.execute("INSERT INTO t VALUES ('more')").rowcount == 1
    with pytest.raises(runnel.NotSupportedError, match="can only be read or appended to"):
        con.execute("DELETE FROM t")


def test_names_that_need_quotes(con: Connection, tmp_path: Path) -> None:
    path = made(
        tmp_path / """it's "a" file.duckdb""",
        'CREATE TABLE "my ""table" ("a b" INTEGER, "select" VARCHAR)',
    )
    sql_path = str(path).replace("'", "''")
    con.execute(f"""CREATE MAPPING t EXTERNAL NAME "my ""table" TYPE DuckDB
                    OPTIONS ('path' = '{sql_path}')""")
    con.execute("INSERT INTO t VALUES (1, 'x')")
    con.execute("""UPDATE t SET "a b" = "a b" + 1""")
    assert rows(con, """SELECT "a b", "select" FROM t""") == [(2, "x")]


def test_read_only(con: Connection, tmp_path: Path) -> None:
    path = made(tmp_path / "f.duckdb", "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
    mapped(con, path, readOnly="true")
    assert rows(con, "SELECT * FROM t") == [(1,)]
    with pytest.raises(runnel.NotSupportedError):
        con.execute("INSERT INTO t VALUES (2)")
    with pytest.raises(runnel.ProgrammingError, match="is open for reading only"):
        con.execute(f"CREATE MAPPING other TYPE DuckDB OPTIONS ('path' = '{path}', 'table' = 't')")


def test_another_process_has_the_file(con: Connection, tmp_path: Path) -> None:
    path = made(tmp_path / "f.duckdb", "CREATE TABLE t (a INTEGER)")
    code = (
        "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print('open', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(runnel.OperationalError, match="is in use by another process") as caught:
            mapped(con, path)
        assert "readOnly" in (caught.value.hint or "")
        other.stdin.close()
        other.wait()
    mapped(con, path)
    assert rows(con, "SELECT * FROM t") == []


def test_another_connection_of_this_process_has_the_file(con: Connection, tmp_path: Path) -> None:
    path = made(tmp_path / "f.duckdb", "CREATE TABLE t (a INTEGER)")
    with runnel.connect() as other:
        mapped(other, path)
        with pytest.raises(runnel.OperationalError, match="is open elsewhere in this process"):
            mapped(con, path)
    mapped(con, path)
    con.execute("INSERT INTO t VALUES (1)")
    assert rows(con, "SELECT * FROM t") == [(1,)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a sound DuckDB database file"),
        (b"no database at all " * 1000, "is not a sound DuckDB database file"),
        (None, "not found"),
    ],
    ids=["empty", "garbage", "missing"],
)
def test_files_that_are_none(
    con: Connection, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "f.duckdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(runnel.OperationalError, match=said):
        mapped(con, path)


def test_a_file_that_was_cut_off_or_damaged(con: Connection, tmp_path: Path) -> None:
    path = made(
        tmp_path / "f.duckdb",
        "CREATE TABLE t AS SELECT range AS a, 'text ' || range AS b FROM range(200000)",
    )
    data = path.read_bytes()
    for number, damaged in enumerate(
        [data[: len(data) // 2], data[:100], data[:4096] + bytes(8192) + data[12288:]]
    ):
        broken = tmp_path / f"broken{number}.duckdb"
        broken.write_bytes(damaged)
        with pytest.raises(
            (runnel.OperationalError, runnel.ProgrammingError, runnel.InternalError)
        ) as caught:
            mapped(con, broken)
            rows(con, "SELECT count(*), max(a), max(b) FROM t")
        assert not isinstance(caught.value, runnel.InternalError), caught.value


def test_a_folder_and_a_missing_folder(con: Connection, tmp_path: Path) -> None:
    with pytest.raises(runnel.OperationalError, match="is a folder"):
        mapped(con, tmp_path)
    with pytest.raises(runnel.OperationalError, match="not found"):
        mapped(con, tmp_path / "no" / "f.duckdb", create="true")


def test_a_table_that_is_gone_says_so(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a INT) TYPE DuckDB")
    con.execute("INSERT INTO t VALUES (1)")
    kernel = con._database.kernel()
    kernel.cursor().execute(f"DROP TABLE {kernel.attach(None)}.main.t")
    for statement in (
        "SELECT * FROM t",
        "INSERT INTO t VALUES (2)",
        "UPDATE t SET a = 2",
        "DELETE FROM t",
    ):
        with pytest.raises(runnel.Error) as caught:
            con.execute(statement).fetchall()
        assert isinstance(caught.value, (runnel.OperationalError, runnel.ProgrammingError)), (
            statement
        )


def test_own_tables_last_in_a_durable_connection(tmp_path: Path) -> None:
    table = "CREATE TABLE f (x INTEGER)"
    with runnel.connect(tmp_path / "d") as con:
        con.execute("CREATE MAPPING t (a INT, m INTERVAL YEAR TO MONTH) TYPE DuckDB")
        con.execute("INSERT INTO t VALUES (1, INTERVAL '3' MONTH)")
        con.execute(
            "CREATE DATA CONNECTION d TYPE DuckDB OPTIONS ('path' = "
            f"'{made(tmp_path / 'f.duckdb', table)}')"
        )
        con.execute("CREATE MAPPING f DATA CONNECTION d")
        con.execute("INSERT INTO f VALUES (7)")
    with runnel.connect(tmp_path / "d") as con:
        assert rows(con, "SELECT * FROM t") == [(1, runnel.Interval(3))]
        assert rows(con, "SELECT * FROM f") == [(7,)]
        assert con.execute("UPDATE t SET a = 2").rowcount == 1
    (tmp_path / "f.duckdb").unlink()
    with runnel.connect(tmp_path / "d") as con:
        assert rows(con, "SELECT a FROM t") == [(2,)]
        assert rows(con, "SELECT table_name FROM information_schema.tables ORDER BY 1") == [
            ("f",),
            ("t",),
        ]
        with pytest.raises(
            runnel.OperationalError, match="could not be opened with the connection"
        ):
            rows(con, "SELECT * FROM f")


def test_many_rows_are_gathered_by_duckdb(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_sink, "GATHERED_BYTES", 100_000)
    con.execute("CREATE MAPPING t (a INT, b VARCHAR) TYPE DuckDB")
    assert (
        con.execute(
            "INSERT INTO t SELECT v, 'x' || v FROM TABLE(GENERATE_SERIES(1, 200000))"
        ).rowcount
        == 200_000
    )
    assert rows(con, "SELECT count(*), sum(a), count(DISTINCT b) FROM t") == [
        (200_000, 20_000_100_000, 200_000)
    ]
    assert con.execute("UPDATE t SET a = -a WHERE a % 2 = 0").rowcount == 100_000
    assert rows(con, "SELECT sum(a) FROM t") == [(-100_000,)]
    with pytest.raises(runnel.DataError):
        con.execute(
            "INSERT INTO t SELECT 10 / (v - 199999), 'y' FROM TABLE(GENERATE_SERIES(1, 200000))"
        )
    assert rows(con, "SELECT count(*) FROM t") == [(200_000,)]
    assert con.execute("DELETE FROM t WHERE a < 0").rowcount == 100_000


def test_a_reader_sees_one_moment(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a INT) TYPE DuckDB")
    con.execute("INSERT INTO t SELECT v FROM TABLE(GENERATE_SERIES(1, 300000))")
    cursor = con.execute("SELECT a FROM t")
    first = cursor.fetchmany(10)
    con.execute("DELETE FROM t")
    assert len(first) + len(cursor.fetchall()) == 300_000
    assert rows(con, "SELECT count(*) FROM t") == [(0,)]


def test_threads_lose_no_update(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a INT) TYPE DuckDB")
    con.execute("INSERT INTO t VALUES (0)")
    failures: list[BaseException] = []

    def add() -> None:
        try:
            for _ in range(10):
                con.execute("UPDATE t SET a = a + 1")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert rows(con, "SELECT a FROM t") == [(40,)]


def test_executemany_writes_one_batch(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a INT, b VARCHAR) TYPE DuckDB")
    cursor = con.cursor()
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"b{i}") for i in range(100)])
    assert cursor.rowcount == 100
    cursor.executemany("UPDATE t SET b = ? WHERE a = ?", [("new", 1), ("newer", 2), ("none", 1000)])
    assert cursor.rowcount == 2
    assert rows(con, "SELECT a, b FROM t WHERE a < 4 ORDER BY a") == [
        (0, "b0"),
        (1, "new"),
        (2, "newer"),
        (3, "b3"),
    ]


def test_relations_are_registered(con: Connection) -> None:
    with duckdb.connect() as own:
        own.execute("CREATE TABLE source AS SELECT range AS n, 'v' || range AS v FROM range(5)")
        con.register("r", own.table("source"))
        con.register("q", own.sql("SELECT n * 10 AS tens FROM source WHERE n > 2"))
        assert rows(con, "SELECT sum(n) FROM r") == [(10,)]
        assert rows(con, "SELECT r.v FROM r JOIN q ON q.tens = r.n * 10 ORDER BY 1") == [
            ("v3",),
            ("v4",),
        ]
        own.execute("INSERT INTO source VALUES (100, 'late')")
        assert rows(con, "SELECT max(n) FROM r") == [(100,)], "a relation is read anew"


def test_a_relation_with_many_rows_waits_on_disk(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_relation, "BUFFERED_BYTES", 100_000)
    with duckdb.connect() as own:
        con.register("r", own.sql("SELECT range AS n, 'text' || range AS t FROM range(100000)"))
        assert rows(con, "SELECT count(*), sum(n), max(t) FROM r") == [
            (100_000, 4_999_950_000, "text99999")
        ]
        assert rows(con, "SELECT count(*) FROM r a JOIN r b ON a.n = b.n") == [(100_000,)]


def test_a_relation_whose_connection_is_in_use(con: Connection) -> None:
    with duckdb.connect() as own:
        con.register("r", own.sql("SELECT range AS n FROM range(100000)"))
        reader = own.sql("SELECT range FROM range(10000000)").to_arrow_reader(1000)
        with pytest.raises(runnel.OperationalError, match="is in use"):
            rows(con, "SELECT sum(n) FROM r")
        reader.close()
        assert rows(con, "SELECT count(*) FROM r") == [(100_000,)]


def test_arrow_out(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a INT, b DECIMAL(5, 2)) TYPE DuckDB")
    con.execute("INSERT INTO t VALUES (1, 1.5), (NULL, NULL)")
    cursor = con.execute("SELECT * FROM t ORDER BY a")
    assert cursor.fetch_arrow_table().schema.types == [pa.int32(), pa.decimal128(5, 2)]


def test_nothing_of_a_cancelled_statement_stays(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
    with pytest.raises(runnel.OperationalError):
        con.execute(
            "INSERT INTO t SELECT v FROM TABLE(GENERATE_SERIES(1, 2000000000))", timeout=0.3
        )
    assert rows(con, "SELECT count(*) FROM t") == [(0,)]
    assert con.execute("INSERT INTO t VALUES (1)").rowcount == 1


def plan_of(con: Connection, sql: str) -> str:
    return "\n".join(row[0] for row in con.execute(f"EXPLAIN (PHYSICAL) {sql}").fetchall())


CHANGES = [
    "UPDATE t SET a = a + 1, b = b || '!' WHERE a % 3 = 1 AND b IS NOT NULL",
    (
        "UPDATE t SET a = CAST(a AS BIGINT) - 1, b = 'x' "
        "WHERE CASE WHEN a = 0 THEN FALSE ELSE 100 / a > 7 END"
    ),
    "UPDATE t SET d = d * 2",
    "UPDATE t SET a = NULL WHERE a IN (1, 2, 3) OR a IS NULL",
    "UPDATE t SET b = (SELECT max(b) FROM s) WHERE EXISTS (SELECT 1 FROM s WHERE s.a = t.a)",
    "DELETE FROM t WHERE a > 10",
    "DELETE FROM t WHERE d < 0 OR b LIKE '%1'",
    "DELETE FROM t WHERE a IN (SELECT a FROM s)",
    "INSERT INTO t SELECT a, b, a / 2.0 FROM s WHERE a > 3",
    "INSERT INTO t (b, a) SELECT b, sum(a) FROM s GROUP BY b",
    "INSERT INTO t SELECT * FROM t",
    "SINK INTO t SELECT * FROM t WHERE d > 1",
]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_within_duckdb_and_by_our_own_operators_agree(change: str) -> None:
    found = []
    for pushdown in ("on", "off"):
        with runnel.connect(pushdown=pushdown) as con:
            con.execute("CREATE MAPPING t (a INT, b VARCHAR, d DECIMAL(10, 2)) TYPE DuckDB")
            con.execute("CREATE MAPPING s (a INT, b VARCHAR) TYPE DuckDB")
            con.execute(
                "INSERT INTO t SELECT CASE WHEN v % 7 = 0 THEN NULL ELSE v % 20 END, "
                "'b' || v % 11, v - 50 "
                "FROM TABLE(GENERATE_SERIES(1, 100))"
            )
            con.execute("INSERT INTO s SELECT v, 's' || v % 3 FROM TABLE(GENERATE_SERIES(1, 9))")
            assert ("Write t" not in plan_of(con, change)) == (pushdown == "on")
            count = con.execute(change).rowcount
            found.append((count, rows(con, "SELECT * FROM t ORDER BY a, b, d")))
    assert found[0] == found[1]
    assert found[0][0] > 0


def test_a_change_within_duckdb_takes_arguments_and_fails_as_a_whole(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a INT) TYPE DuckDB")
    con.execute("INSERT INTO t SELECT v FROM TABLE(GENERATE_SERIES(1, 1000))")
    assert con.execute("UPDATE t SET a = a + ? WHERE a <= ?", (1000, 10)).rowcount == 10
    assert con.execute("UPDATE t SET a = a + ? WHERE a <= ?", (5000, 20)).rowcount == 10
    assert "UPDATE" in plan_of(con, "UPDATE t SET a = 10 / (a - 500)")
    with pytest.raises(runnel.DataError, match="division by zero") as caught:
        con.execute("UPDATE t SET a = 10 / (a - 500)")
    assert caught.value.position is not None
    assert caught.value.position.column == len("UPDATE t SET a = ") + 1
    assert "TRY" not in str(caught.value)
    with pytest.raises(runnel.DataError):
        con.execute("INSERT INTO t SELECT a * 1000000 FROM t")
    assert rows(con, "SELECT count(*), max(a) FROM t") == [(1000, 5020)]


def test_a_change_within_duckdb_can_be_cancelled(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a INT) TYPE DuckDB")
    con.execute("INSERT INTO t SELECT v FROM TABLE(GENERATE_SERIES(1, 30000))")
    with pytest.raises(runnel.OperationalError, match="time-out"):
        con.execute(
            "INSERT INTO t SELECT x.a FROM t AS x JOIN t AS y ON x.a <> y.a + 1", timeout=0.3
        )
    assert rows(con, "SELECT count(*) FROM t") == [(30_000,)]
    assert con.execute("DELETE FROM t WHERE a > 10").rowcount == 29_990


def test_plain_changes_need_no_row_numbers(con: Connection) -> None:
    con.execute("CREATE MAPPING t (a INT, i INTERVAL DAY TO SECOND) TYPE DuckDB")
    assert "rowid" not in plan_of(con, "UPDATE t SET a = a + 1 WHERE a > 5 AND a < 10")
    assert "rowid" not in plan_of(con, "DELETE FROM t WHERE a > 5")
    assert "rowid" in plan_of(con, "DELETE FROM t WHERE a IN (SELECT max(a) FROM t)")
    assert "Write t" in plan_of(con, "UPDATE t SET i = INTERVAL '1' DAY"), (
        "intervals travel in another form"
    )
