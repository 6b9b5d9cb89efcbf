"""Tables of CREATE TABLE: after a restart, a kill and a restore, the catalog and DuckDB's file
agree; each type is stored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import runnel

KILLED = """
import os, sys
import runnel
from runnel.session.directory import Directory

point, statement = sys.argv[2], sys.argv[3]
connection = runnel.connect(sys.argv[1])
save = Directory.save

def killed(self, *items):
    if point == "before":
        os.kill(os.getpid(), 9)
    save(self, *items)
    if point == "after":
        os.kill(os.getpid(), 9)

Directory.save = killed
connection.execute(statement)
os.kill(os.getpid(), 9)
"""

STATEMENTS = {
    "CREATE TABLE u AS SELECT range AS a FROM (VALUES (1), (2)) AS v (range)": ("u", [(1,), (2,)]),
    "CREATE OR REPLACE TABLE t AS SELECT 7 AS id, 'new' AS v": ("t", [(7, "new")]),
    "ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 3": ("t", [(1, "a", 3), (2, "b", 3)]),
    "ALTER TABLE t RENAME TO u": ("u", [(1, "a"), (2, "b")]),
    "DROP TABLE t": ("t", None),
}
OLD = [(1, "a"), (2, "b")]


def filled(path: Path) -> None:
    with runnel.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR)")
        connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")


def contents(connection: runnel.Connection, table: str) -> list[tuple[object, ...]] | None:
    try:
        return sorted(connection.execute(f"SELECT * FROM {table}").fetchall())
    except runnel.ProgrammingError:
        return None


def stored(path: Path) -> set[str]:
    """The names of the DuckDB tables."""
    with duckdb.connect(str(path / "tables.duckdb")) as own:
        found = own.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    return {name for (name,) in found}


@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda text: " ".join(text.split()[:6]))
def test_a_kill_leaves_all_or_nothing(tmp_path: Path, statement: str, point: str) -> None:
    filled(tmp_path / "db")
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "db"), point, statement]
    assert subprocess.run(arguments, check=False, timeout=60).returncode == -9
    table, after = STATEMENTS[statement]
    with runnel.connect(tmp_path / "db") as connection:
        before = OLD if table == "t" else None
        assert contents(connection, table) == (before if point == "before" else after)
        names = [row[0] for row in connection.execute("SHOW MAPPINGS").fetchall()]
        for name in names:
            assert contents(connection, name) is not None
        connection.execute("CREATE TABLE another (a INTEGER)")
        names.append("another")
    assert len(stored(tmp_path / "db")) == len(names), "a table without a name remains"


def test_a_failed_query_leaves_no_table(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        with pytest.raises(runnel.DataError, match="division by zero"):
            connection.execute("CREATE TABLE t AS SELECT 1 / x AS a FROM (VALUES (0)) AS v (x)")
        assert contents(connection, "t") is None
    assert stored(tmp_path / "db") == set()


def test_a_backup_has_the_tables(tmp_path: Path) -> None:
    filled(tmp_path / "db")
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute("ALTER TABLE t ADD CHECK (id < 100)")
        connection.execute(f"BACKUP TO '{tmp_path}/copy'")
        connection.execute("DROP TABLE t")
    with runnel.connect(tmp_path / "copy") as connection:
        assert contents(connection, "t") == OLD
        with pytest.raises(runnel.IntegrityError, match="id < 100"):
            connection.execute("INSERT INTO t VALUES (100, 'x')")
        with pytest.raises(runnel.IntegrityError, match="the primary key has id: 1 already"):
            connection.execute("INSERT INTO t VALUES (1, 'x')")


def test_temporary_tables_are_not_stored(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TEMP TABLE t AS SELECT 1 AS a")
        assert contents(connection, "t") == [(1,)]
    with runnel.connect(tmp_path / "db") as connection:
        assert contents(connection, "t") is None


def test_a_lost_file_is_named(tmp_path: Path) -> None:
    filled(tmp_path / "db")
    (tmp_path / "db" / "tables.duckdb").unlink()
    with runnel.connect(tmp_path / "db") as connection:
        with pytest.raises(runnel.OperationalError, match="can't be used") as caught:
            connection.execute("SELECT * FROM t")
        assert "do not exist" in str(caught.value.detail)
        connection.execute("DROP TABLE t")


TYPES = {
    "BOOLEAN": "TRUE",
    "TINYINT": "-128",
    "SMALLINT": "32767",
    "BIGINT": "9223372036854775807",
    "REAL": "CAST(1.5 AS REAL)",
    "DOUBLE": "1e300",
    "DECIMAL(38, 10)": "1234567890123456789012345678.0123456789",
    "VARCHAR": "'ä\n'",
    "VARBINARY": "X'00ff'",
    "DATE": "DATE '0001-01-01'",
    "TIME": "TIME '23:59:59.999999'",
    "TIMESTAMP": "TIMESTAMP '9999-12-31 23:59:59.999999'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP WITH TIME ZONE '2024-01-01 00:00:00+02:00'",
    "UUID": "CAST('00000000-0000-0000-0000-000000000001' AS UUID)",
    "JSON": "CAST('{\"a\": [1]}' AS JSON)",
    "INTERVAL DAY TO SECOND": "INTERVAL '1 02:03:04.5' DAY TO SECOND",
    "INTERVAL YEAR TO MONTH": "INTERVAL '1-2' YEAR TO MONTH",
    "INTEGER[]": "ARRAY[1, NULL, 3]",
    "MAP(VARCHAR, INTEGER)": "MAP['a', 1]",
    "ROW(j JSON, t TIME)[]": "ARRAY[CAST(ROW(CAST('1' AS JSON), TIME '01:00:00') "
    "AS ROW(j JSON, t TIME))]",
}


def test_each_type_is_stored(tmp_path: Path) -> None:
    columns = ", ".join(f"c{i} {name}" for i, name in enumerate(TYPES))
    values = ", ".join(TYPES.values())
    with runnel.connect(tmp_path) as connection:
        connection.execute(f"CREATE TABLE t ({columns})")
        connection.execute(f"INSERT INTO t VALUES ({values})")
        connection.execute("INSERT INTO t DEFAULT VALUES")
        connection.execute("CREATE TABLE u AS SELECT * FROM t")
        ignored = "INSERT INTO t SELECT * FROM u WHERE c0 RETURNING *"
        returned = connection.execute(ignored).fetchall()
        casts = ", ".join(f"CAST({value} AS {name})" for name, value in TYPES.items())
        expected = connection.execute(f"SELECT {casts}").fetchall()
        assert returned == expected
    with runnel.connect(tmp_path) as connection:
        for table in ("t", "u"):
            cursor = connection.execute(f"SELECT * FROM {table} WHERE c0")
            assert [str(item[1]) for item in cursor.description or ()] == list(TYPES)
            assert cursor.fetchall()[0] == expected[0]
            nulls = connection.execute(f"SELECT * FROM {table} WHERE c0 IS NULL").fetchall()
            assert nulls == [(None,) * len(TYPES)]


def test_intervals_within_other_types_are_refused(tmp_path: Path) -> None:
    with (
        runnel.connect() as connection,
        pytest.raises(runnel.NotSupportedError, match="INTERVAL DAY TO SECOND\\[\\]"),
    ):
        connection.execute("CREATE TABLE t AS SELECT ARRAY[INTERVAL '1' DAY] AS a")
