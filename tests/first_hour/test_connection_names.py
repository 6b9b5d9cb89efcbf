"""The names of databases that DuckDB's connect has for itself."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import runnel


def test_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert runnel.connect(":default:") is runnel.default_connection()
    for name in (":memory:shared", ":default:x"):
        with pytest.raises(runnel.NotSupportedError, match="there is no database"):
            runnel.connect(name)
    assert list(tmp_path.iterdir()) == []


def test_read_only_databases_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute("CREATE TABLE q (a INTEGER)")
    with runnel.connect() as con:
        con.execute(f"ATTACH '{path}' AS other (READ_ONLY)")
        rows = con.execute("SELECT database_name, readonly FROM duckdb_databases() ORDER BY 1")
        assert rows.fetchall() == [("other", True), ("runnel", False)]


def test_a_new_name_with_an_extension_of_duckdb_is_a_file(tmp_path: Path) -> None:
    for name in ("shop.db", "shop.ddb", "shop.DuckDB"):
        with runnel.connect(tmp_path / name) as connection:
            connection.execute("CREATE TABLE t AS SELECT 1 AS a")
        with duckdb.connect(tmp_path / name) as other:
            assert other.execute("FROM t").fetchall() == [(1,)]
    (tmp_path / "old.db").mkdir()
    runnel.connect(tmp_path / "old.db").close()
    assert (tmp_path / "old.db").is_dir()
