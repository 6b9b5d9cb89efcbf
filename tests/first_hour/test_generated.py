"""SERIAL, IDENTITY and computed columns after a restart, in threads, in transactions and in DuckDB
files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import runnel

TABLE = """CREATE TABLE t (
    id BIGINT GENERATED ALWAYS AS IDENTITY (START 5) PRIMARY KEY, x INT, y AS (x * 2))"""


def test_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with runnel.connect(path) as connection:
        connection.execute(TABLE)
        sql = "INSERT INTO t (x) VALUES (1) RETURNING *"
        assert connection.execute(sql).fetchall() == [(5, 1, 2)]
    with runnel.connect(path) as connection:
        assert connection.execute(sql).fetchall() == [(6, 1, 2)]
        with pytest.raises(runnel.ProgrammingError, match="GENERATED ALWAYS AS IDENTITY"):
            connection.execute("INSERT INTO t (id) VALUES (1)")
        with pytest.raises(runnel.ProgrammingError, match="is computed"):
            connection.execute("INSERT INTO t (y) VALUES (1)")
        connection.execute("DROP TABLE t")
    with runnel.connect(path) as connection:
        with pytest.raises(runnel.ProgrammingError, match='sequence "t_id_seq" not found'):
            connection.execute("SELECT nextval('t_id_seq')")
        connection.execute(TABLE)
        assert connection.execute(sql).fetchall() == [(5, 1, 2)]


def test_threads_draw_different_numbers(connection: runnel.Connection) -> None:
    connection.execute(TABLE)

    def write(x: int) -> int:
        sql = "INSERT INTO t (x) VALUES (?) RETURNING id"
        return int(connection.execute(sql, [x]).fetchall()[0][0])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(write, range(40)))
    assert len(set(found)) == 40
    sql = "SELECT count(*), bool_and(y = x * 2) FROM t"
    assert connection.execute(sql).fetchone() == (40, True)


def test_many_parameters(connection: runnel.Connection) -> None:
    connection.execute(TABLE)
    connection.executemany("INSERT INTO t (x) VALUES (?)", [(i,) for i in range(1000)])
    sql = "SELECT count(DISTINCT id), min(id), sum(y) FROM t"
    assert connection.execute(sql).fetchone() == (1000, 5, 999_000)


def test_many_parameters_of_which_one_does_not_fit(connection: runnel.Connection) -> None:
    """All rows are written, or none: also where another column is computed from the value."""
    connection.execute("CREATE TABLE t (x INT, y AS (x * 2), z AS (10 / x), w INT DEFAULT 4)")
    for value in (2**40, 0):
        with pytest.raises(runnel.DataError):
            connection.executemany("INSERT INTO t (x) VALUES (?)", [(1,), (value,)])
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    connection.executemany("INSERT INTO t (x, w) VALUES (?, ?), (5, ?)", [(1, 2, 3), (2, 3, 4)])
    sql = "SELECT x, y, z, w FROM t"
    assert connection.execute(sql).fetchall() == [
        (1, 2, 10, 2),
        (5, 10, 2, 3),
        (2, 4, 5, 3),
        (5, 10, 2, 4),
    ]


def test_in_a_transaction(connection: runnel.Connection) -> None:
    connection.execute(TABLE)
    connection.execute("BEGIN")
    sql = "INSERT INTO t (x) VALUES (1) RETURNING *"
    assert connection.execute(sql).fetchall() == [(5, 1, 2)]
    sql = "UPDATE t SET x = 4 RETURNING *"
    assert connection.execute(sql).fetchall() == [(5, 4, 8)]
    connection.execute("ROLLBACK")
    sql = "INSERT INTO t (x) VALUES (1) RETURNING *"
    assert connection.execute(sql).fetchall() == [(6, 1, 2)]


def test_a_failed_definition_leaves_no_sequence(connection: runnel.Connection) -> None:
    with pytest.raises(runnel.NotSupportedError):
        connection.execute("CREATE TABLE t (id SERIAL, x VARCHAR, CHECK (x ~ uuid()::varchar))")
    with pytest.raises(runnel.ProgrammingError, match="not found"):
        connection.execute("SELECT nextval('t_id_seq')")
    connection.execute("CREATE TABLE t (id SERIAL)")
    sql = "INSERT INTO t DEFAULT VALUES RETURNING id"
    assert connection.execute(sql).fetchall() == [(1,)]


def test_a_job_writes_computed_columns(connection: runnel.Connection) -> None:
    connection.execute("CREATE TABLE t (a BIGINT, b AS (a + 1))")
    connection.execute("CREATE TABLE source AS SELECT i AS a FROM range(10) r(i)")
    connection.execute("CREATE JOB j AS INSERT INTO t SELECT a FROM source")
    connection.job("j").join(timeout=60)
    sql = "SELECT count(*), bool_and(b = a + 1) FROM t"
    assert connection.execute(sql).fetchone() == (10, True)


def test_a_duckdb_file(tmp_path: Path) -> None:
    path = tmp_path / "f.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute("CREATE SEQUENCE own START 10")
        other.execute("CREATE TABLE o (id BIGINT DEFAULT nextval('own'), x INT)")
        other.execute("INSERT INTO o (x) VALUES (1)")
    with runnel.connect(path) as connection:
        for sql, expected in (
            ("INSERT INTO o (x) VALUES (2) RETURNING id", 11),
            ("INSERT INTO s (x) VALUES (2) RETURNING id", 1),
            ("SELECT nextval('z')", 7),
        ):
            if " s " in sql:
                connection.execute("CREATE TABLE s (id SERIAL PRIMARY KEY, x INT)")
                connection.execute("CREATE SEQUENCE z START 7")
            assert connection.execute(sql).fetchall() == [(expected,)]
        connection.execute("ALTER TABLE s ADD COLUMN q INT")
        for sql, message in (
            ("CREATE TABLE n (id INT GENERATED ALWAYS AS IDENTITY)", "BY DEFAULT AS IDENTITY"),
            ("CREATE TABLE n (id INT, x AS (id))", "compute it in a view"),
            ("SELECT setval('s_id_seq', 30)", "SETVAL is not supported in a DuckDB file"),
            ("DROP SEQUENCE own", "used by the DEFAULT"),
        ):
            with pytest.raises(runnel.Error, match=message):
                connection.execute(sql)
    with duckdb.connect(str(path)) as other:
        assert other.execute("INSERT INTO s (x) VALUES (9) RETURNING id").fetchall() == [(2,)]
    with runnel.connect(path) as connection:
        assert connection.execute("INSERT INTO s (x) VALUES (4) RETURNING id").fetchall() == [(3,)]
        connection.execute("DROP TABLE s")
        connection.execute("DROP SEQUENCE s_id_seq")


def test_comments_are_stored(tmp_path: Path) -> None:
    for path in (tmp_path / "f.duckdb", tmp_path / "db"):
        with runnel.connect(path) as connection:
            connection.execute("CREATE TABLE t (a INT, b INT)")
            connection.execute("COMMENT ON TABLE t IS 'it''s'")
            connection.execute("COMMENT ON COLUMN t.a IS 'col'")
            connection.execute("ALTER TABLE t DROP b")
        with runnel.connect(path) as connection:
            sql = "SELECT table_comment FROM information_schema.tables"
            assert connection.execute(sql).fetchall() == [("it's",)]
            sql = "SELECT column_comment FROM information_schema.columns"
            assert connection.execute(sql).fetchall() == [("col",)]
    with duckdb.connect(str(tmp_path / "f.duckdb")) as other:
        assert other.execute("SELECT comment FROM duckdb_tables()").fetchall() == [("it's",)]


def test_files_that_are_only_read(tmp_path: Path) -> None:
    path = tmp_path / "f.duckdb"
    with runnel.connect(path, read_only=False) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    with runnel.connect(path, read_only=True) as connection:
        assert connection.execute("FROM t").fetchall() == [(1,)]
    with runnel.connect() as connection:
        connection.execute(
            f"CREATE DATA CONNECTION d TYPE DuckDB OPTIONS ('path' = '{path}', 'readOnly' = 'true')"
        )
        connection.execute("CREATE MAPPING t DATA CONNECTION d")
        assert connection.execute("FROM t").fetchall() == [(1,)]
        with pytest.raises(runnel.NotSupportedError):
            connection.execute("INSERT INTO t VALUES (2)")
