"""Schemas and attached files that change: under the plan of a query, in another thread, after an
error."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute("CREATE TABLE c (id INT)")
        connection.execute("INSERT INTO c VALUES (1), (2)")
        connection.execute("CREATE VIEW v AS SELECT count(*) AS k FROM c")
    return tmp_path


def run(connection: runnel.Connection, sql: str) -> list[Any]:
    found = connection.execute(sql)
    return list(found.fetchall()) if found.description else []


def test_the_plan_of_a_view_follows_the_search_path_of_the_view() -> None:
    with runnel.connect() as connection:
        for sql in (
            "CREATE SCHEMA s",
            "CREATE TABLE u AS SELECT 1 AS a",
            "SET search_path = 's,public'",
            "CREATE VIEW public.vu AS SELECT * FROM u",
            "USE public",
        ):
            run(connection, sql)
        assert run(connection, "SELECT * FROM vu") == [(1,)]
        run(connection, "CREATE TABLE s.u AS SELECT 2 AS a")
        assert run(connection, "SELECT * FROM vu") == [(2,)]
        run(connection, "DROP TABLE u")
        run(connection, "CREATE TEMP TABLE u AS SELECT 3 AS a")
        assert run(connection, "SELECT * FROM vu") == [(3,)]


def test_a_plan_follows_the_schemas_of_the_database_in_use() -> None:
    with runnel.connect() as connection:
        for sql in (
            "ATTACH ':memory:' AS m",
            "CREATE SCHEMA s",
            "CREATE TABLE s.t AS SELECT 1 AS a",
            "USE m",
        ):
            run(connection, sql)
        assert run(connection, "SELECT a FROM s.t") == [(1,)]
        run(connection, "CREATE SCHEMA m.s")
        run(connection, "CREATE TABLE m.s.t AS SELECT 2 AS a")
        assert run(connection, "SELECT a FROM s.t") == [(2,)]


@pytest.mark.parametrize("later", [(), ("CREATE SCHEMA {0}",)])
@pytest.mark.parametrize("schema", ["s", "m.s"])
@pytest.mark.parametrize("has_rows", [True, False])
def test_a_schema_that_is_dropped_while_a_table_is_filled(
    schema: str, later: tuple[str, ...], has_rows: bool
) -> None:
    """No table is left without its schema, or without its rows."""
    with runnel.connect() as connection:
        run(connection, "ATTACH ':memory:' AS m")
        run(connection, f"CREATE SCHEMA {schema}")

        def batches() -> Iterator[pa.RecordBatch]:
            with ThreadPoolExecutor(1) as thread:
                for sql in ("DROP SCHEMA {0} CASCADE", *later):
                    thread.submit(connection.cursor().execute, sql.format(schema)).result()
            yield from [pa.record_batch({"a": [2]})] if has_rows else ()

        reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
        connection.register("source", reader)
        if later and schema == "s":
            run(connection, "CREATE TABLE s.t AS SELECT a FROM source")
            assert run(connection, "FROM s.t") == ([(2,)] if has_rows else [])
            return
        with pytest.raises(runnel.Error, match=r"does not exist|was dropped"):
            run(connection, f"CREATE TABLE {schema}.t AS SELECT a FROM source")
        run(connection, f"CREATE SCHEMA IF NOT EXISTS {schema}")
        assert run(connection, f"SHOW TABLES FROM {schema}") == []
        run(connection, f"CREATE TABLE {schema}.t AS SELECT 3 AS a")
        assert run(connection, f"FROM {schema}.t") == [(3,)]


def test_detach_after_a_change_of_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "below").mkdir()
    with runnel.connect() as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o")
        monkeypatch.chdir(folder / "below")
        assert run(connection, "SELECT k FROM o.v") == [(2,)]
        run(connection, "DETACH o")
        with duckdb.connect(str(folder / "shop.duckdb")) as other:
            assert other.execute("SELECT k FROM v").fetchall() == [(2,)]


def test_attach_or_replace_that_fails_changes_nothing(folder: Path) -> None:
    Path("text.duckdb").write_text("no database")
    with runnel.connect() as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o (READ_ONLY)")
        run(connection, "ATTACH ':memory:' AS m")
        run(connection, "CREATE TABLE m.t AS SELECT 1 AS a")
        for name in ("o", "m"):
            for file in ("none/x.duckdb", "text.duckdb"):
                with pytest.raises(runnel.Error, match=file.rpartition("/")[2]):
                    run(connection, f"ATTACH OR REPLACE '{file}' AS {name}")
        assert run(connection, "SELECT k FROM o.v") == [(2,)]
        assert run(connection, "FROM m.t") == [(1,)]
        with pytest.raises(runnel.NotSupportedError, match="READ_ONLY"):
            run(connection, "DROP TABLE o.c")
        run(connection, "ATTACH OR REPLACE 'shop.duckdb' AS o")
        run(connection, "INSERT INTO o.c (id) VALUES (5)")
        run(connection, "ATTACH OR REPLACE 'new.duckdb' AS o")
        assert run(connection, "SHOW TABLES FROM o") == []
        with duckdb.connect("shop.duckdb") as other:
            assert other.execute("SELECT k FROM v").fetchall() == [(3,)]
