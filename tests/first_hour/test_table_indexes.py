"""Indexes of the tables of CREATE TABLE: in memory, in a directory, and in DuckDB files."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import runnel

LISTED = "SELECT schema_name, index_name, table_name, is_unique FROM duckdb_indexes() ORDER BY ALL"


@pytest.mark.parametrize("name", ["directory", "file.duckdb"])
def test_an_index_survives(tmp_path: Path, name: str) -> None:
    with runnel.connect(tmp_path / name) as con:
        con.execute("CREATE TABLE t (a INT, b VARCHAR)")
        con.execute("CREATE UNIQUE INDEX one ON t (a, b)")
        con.execute("CREATE TEMP TABLE gone (a INT)")
        con.execute("CREATE INDEX gone_too ON gone (a)")
        con.execute("CREATE SCHEMA s")
        con.execute("CREATE TABLE s.t (a INT)")
        con.execute("CREATE INDEX one ON s.t (a DESC)")
    with runnel.connect(tmp_path / name) as con:
        found = [row[1:] for row in con.execute(LISTED).fetchall()]
        assert found == [("one", "t", True), ("one", "t", False)]
        con.execute("INSERT INTO t VALUES (1, 'x'), (1, 'y'), (1, NULL), (1, NULL)")
        with pytest.raises(runnel.IntegrityError, match='constraint of table "t" is violated'):
            con.execute("INSERT INTO t VALUES (1, 'x')")
        con.execute("DROP INDEX one")
        con.execute("INSERT INTO t VALUES (1, 'x')")
        con.execute("DROP INDEX s.one")
        assert con.execute(LISTED).fetchall() == []
        with pytest.raises(runnel.ProgrammingError, match='index "one" not found'):
            con.execute("DROP INDEX one")
    with runnel.connect(tmp_path / name) as con:
        assert con.execute("SELECT count(*) FROM t").fetchone() == (5,)
        assert con.execute(LISTED).fetchall() == []


def test_a_file_has_the_indexes_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t (a INT, b INT)")
        con.execute("CREATE INDEX sum_of_both ON t ((a + b))")
        con.execute("CREATE UNIQUE INDEX one ON t (a)")
    with runnel.connect(path) as db:
        rows = db.execute(LISTED).fetchall()
        assert [row[1:] for row in rows] == [("one", "t", True), ("sum_of_both", "t", False)]
        db.execute("INSERT INTO t VALUES (1, 1)")
        with pytest.raises(runnel.IntegrityError):
            db.execute("INSERT INTO t VALUES (1, 2)")
        with pytest.raises(runnel.NotSupportedError, match="DROP INDEX one first"):
            db.execute("ALTER TABLE t RENAME TO u")
        db.execute("DROP INDEX sum_of_both")
        db.execute("DROP INDEX one")
        db.execute("ALTER TABLE t RENAME TO u")
        db.execute("CREATE INDEX again ON u (b)")
    with duckdb.connect(str(path)) as con:
        assert con.execute("SELECT index_name FROM duckdb_indexes()").fetchall() == [("again",)]


def test_an_attached_file(tmp_path: Path) -> None:
    with runnel.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'a.duckdb'}' AS a")
        con.execute("CREATE TABLE a.q (x INT)")
        con.execute("CREATE INDEX i ON a.q (x)")
        con.execute("DETACH a")
        assert con.execute(LISTED).fetchall() == []
        con.execute(f"ATTACH '{tmp_path / 'a.duckdb'}' AS a (READ_ONLY)")
        assert con.execute(LISTED).fetchall() == [("main", "i", "q", False)]
        with pytest.raises(runnel.NotSupportedError, match="READ_ONLY"):
            con.execute("DROP INDEX a.i")
        with pytest.raises(runnel.NotSupportedError, match="READ_ONLY"):
            con.execute("CREATE INDEX j ON a.q (x)")


def test_a_table_that_is_replaced_or_dropped_loses_its_indexes() -> None:
    with runnel.connect() as con:
        con.execute("CREATE TABLE t (a INT)")
        con.execute("CREATE UNIQUE INDEX one ON t (a)")
        con.execute("BEGIN")
        for statement in ("DROP INDEX one", "CREATE INDEX j ON t (a)"):
            with pytest.raises(runnel.NotSupportedError, match="not supported in a transaction"):
                con.execute(statement)
        with pytest.raises(runnel.NotSupportedError, match="it has indexes"):
            con.execute("CREATE OR REPLACE TABLE t (a INT)")
        con.execute("ROLLBACK")
        con.execute("CREATE OR REPLACE TABLE t (a INT)")
        assert con.execute(LISTED).fetchall() == []
        con.execute("INSERT INTO t VALUES (1), (1)")
        con.execute("CREATE INDEX one ON t (a)")
        con.execute("DROP TABLE t")
        assert con.execute(LISTED).fetchall() == []
        con.execute("CREATE TABLE t (a INT)")
        con.execute("CREATE INDEX one ON t (a)")


def test_a_transaction_drops_no_table_that_has_indexes(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "d") as con:
        con.execute("CREATE TABLE t (a INT)")
        con.execute("CREATE TABLE plain (a INT)")
        con.execute("CREATE INDEX one ON t (a)")
        con.execute("BEGIN")
        with pytest.raises(runnel.NotSupportedError, match="DROP INDEX one first"):
            con.execute("DROP TABLE plain, t")
        con.execute("DROP TABLE plain")
        con.execute("COMMIT")
        assert len(con.execute(LISTED).fetchall()) == 1
        con.execute("DROP TABLE t")
        con.execute("CREATE TABLE t (a INT)")
        con.execute("CREATE INDEX one ON t (a)")


def test_a_backup_has_the_indexes(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "d") as con:
        con.execute("CREATE TABLE t (a INT)")
        con.execute("CREATE UNIQUE INDEX one ON t (a)")
        con.execute("INSERT INTO t VALUES (1)")
        con.execute(f"BACKUP TO '{tmp_path / 'copy'}'").fetchall()
    with runnel.connect(tmp_path / "copy") as con:
        with pytest.raises(runnel.IntegrityError):
            con.execute("INSERT INTO t VALUES (1)")
        con.execute("DROP INDEX one")
        con.execute("INSERT INTO t VALUES (1)")
