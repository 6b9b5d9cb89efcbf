"""Views of other systems' catalogs: opened databases, registered objects, jobs and arguments."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import runnel


def test_path_of_a_directory_and_of_a_file(tmp_path: Path) -> None:
    for name in ("shop", "shop.duckdb"):
        with runnel.connect(tmp_path / name) as con:
            found = con.execute("SELECT database_name, path FROM duckdb_databases()").fetchall()
            assert found == [("runnel", str(tmp_path / name))]
            assert con.execute("PRAGMA database_list").fetchone() == (
                0,
                "runnel",
                str(tmp_path / name),
            )


def test_registered_objects_have_no_statement(connection: runnel.Connection) -> None:
    connection.register("frame", pa.table({"a": [1, 2]}))
    query = "SELECT table_name, estimated_size, column_count, sql FROM duckdb_tables()"
    assert connection.execute(query).fetchall() == [("frame", 2, 1, None)]
    rows = connection.execute("PRAGMA table_info('frame')").fetchall()
    assert rows == [(0, "a", "BIGINT", False, None, False)]


def test_secrets_are_redacted(connection: runnel.Connection, tmp_path: Path) -> None:
    connection.execute(
        "CREATE MAPPING t (a INT) TYPE Kafka OPTIONS ('bootstrap.servers' = 'x:1', "
        "'sasl.password' = 'hidden', 'valueFormat' = 'json-flat')"
    )
    for view in ("duckdb_tables()", "sqlite_master"):
        (text,) = connection.execute(f"SELECT sql FROM {view}").fetchone() or ("",)
        assert "sasl.password" in text
        assert "hidden" not in text


def test_rows_follow_the_catalog(connection: runnel.Connection) -> None:
    query = "SELECT count(*) FROM pg_tables WHERE tablename LIKE ?"
    assert connection.execute(query, ("t%",)).fetchone() == (0,)
    connection.execute("CREATE TABLE t1 (a INT)")
    assert connection.execute(query, ("t%",)).fetchone() == (1,)
    connection.execute("DROP TABLE t1")
    assert connection.execute(query, ("t%",)).fetchone() == (0,)


def test_a_job_cannot_read_the_settings(connection: runnel.Connection) -> None:
    connection.execute("CREATE TABLE copied (name VARCHAR)")
    with pytest.raises(runnel.NotSupportedError, match="settings cannot be read by a job"):
        connection.execute("CREATE JOB j AS INSERT INTO copied SELECT name FROM duckdb_settings()")


def test_a_frame_of_the_program_hides_a_view(connection: runnel.Connection) -> None:
    sqlite_master = pa.table({"a": [1]})
    assert connection.execute("SELECT * FROM sqlite_master").fetchall() == [(1,)]
    assert sqlite_master.num_rows == 1
