"""EXPORT DATABASE, IMPORT DATABASE and COPY FROM DATABASE: round trips, also with DuckDB."""

from __future__ import annotations

import logging
from pathlib import Path

import duckdb
import pytest

import runnel
from runnel.serving.server import Server

DEFINITIONS = """
CREATE SEQUENCE q START 5;
CREATE MACRO m(x) AS x + 1;
CREATE SCHEMA s;
CREATE TABLE t(a INT PRIMARY KEY, b TEXT NOT NULL DEFAULT 'x', c DECIMAL(5, 2) CHECK (c > 0));
CREATE TABLE a_child(x INT REFERENCES t(a), y INT DEFAULT nextval('q'), CHECK (m(x) > 0));
CREATE TABLE s.z(a INT, "A b" TEXT);
CREATE TABLE s."T"(a INT);
CREATE TABLE "s-t"(a INT);
CREATE TABLE n(a INT GENERATED ALWAYS AS IDENTITY, c INT, d INT GENERATED ALWAYS AS (c + 1));
INSERT INTO t VALUES (1, '', 2.5), (2, 'b''s,"x"', NULL), (3, 'NULL', 1);
INSERT INTO a_child(x) VALUES (1);
INSERT INTO n(c) VALUES (9), (10);
INSERT INTO s.z VALUES (1, NULL), (2, '');
INSERT INTO s."T" VALUES (7);
INSERT INTO "s-t" VALUES (8);
CREATE VIEW z AS SELECT * FROM t; CREATE VIEW b AS SELECT a FROM z
-- the smaller ones
WHERE a < 3 -- at the end
;
CREATE MACRO tm(lowest) AS TABLE SELECT * FROM b WHERE a > lowest;
CREATE VIEW s.w AS SELECT m(a) AS a FROM b;
CREATE INDEX i ON a_child(y);
CREATE UNIQUE INDEX i2 ON s.z(a);
CREATE TEMP TABLE gone(a INT);
SET search_path = 's';
CREATE VIEW p AS SELECT * FROM z;
RESET search_path
"""
RELATIONS = ("t", "a_child", "s.z", 's."T"', '"s-t"', "n", "z", "b", "tm(1)", "s.w", "s.p")


def filled() -> runnel.Connection:
    """A connection with one object of each kind."""
    connection = runnel.connect()
    connection.execute(DEFINITIONS)
    return connection


def rows(connection: runnel.Connection | duckdb.DuckDBPyConnection, name: str) -> list[tuple]:
    return connection.execute(f"SELECT * FROM {name} ORDER BY ALL NULLS LAST").fetchall()


@pytest.mark.parametrize("options", ["", "(FORMAT parquet)", "(FORMAT json)", "(DELIMITER '|')"])
def test_round_trip(tmp_path: Path, options: str) -> None:
    with filled() as before, runnel.connect() as after:
        before.execute(f"EXPORT DATABASE '{tmp_path / 'x'}' {options}")
        moved = (tmp_path / "x").rename(tmp_path / "moved")
        after.execute(f"IMPORT DATABASE '{moved}'")
        for name in RELATIONS:
            assert rows(after, name) == rows(before, name), name
        assert after.execute("SELECT nextval('q')").fetchone() == (6,)
        after.execute("INSERT INTO n(c) VALUES (1)")
        assert (3, 1, 2) in rows(after, "n")
        for sql in ("INSERT INTO t VALUES (1, 'a', 1)", "INSERT INTO t(a, c) VALUES (9, -1)"):
            with pytest.raises(runnel.IntegrityError):
                after.execute(sql)
        with pytest.raises(runnel.IntegrityError):
            after.execute("INSERT INTO a_child(x) VALUES (99)")
        indexes = "SELECT index_name, schema_name, sql FROM duckdb_indexes() ORDER BY 1"
        assert after.execute(indexes).fetchall() == before.execute(indexes).fetchall()


def test_the_export_of_an_import_is_the_same(tmp_path: Path) -> None:
    with filled() as before, runnel.connect(tmp_path / "directory") as after:
        before.execute(f"EXPORT DATABASE '{tmp_path / 'x'}'")
        after.execute(f"IMPORT DATABASE '{tmp_path / 'x'}'")
        after.execute(f"EXPORT DATABASE '{tmp_path / 'y'}'")
        for file in sorted((tmp_path / "x").iterdir()):
            text = (tmp_path / "y" / file.name).read_text()
            assert text.replace(str(tmp_path / "y"), str(tmp_path / "x")) == file.read_text()


PLAIN = """
CREATE SCHEMA s;
CREATE SEQUENCE q START 5 INCREMENT 2;
CREATE TABLE t(a INT PRIMARY KEY, b TEXT NOT NULL DEFAULT 'x', c DECIMAL(5, 2) CHECK (c > 0));
CREATE TABLE child(x INT REFERENCES t(a), y INT DEFAULT nextval('q'));
CREATE TABLE s.z(a INT, "A b" TEXT, d DATE);
CREATE TABLE g(a INT, b INT GENERATED ALWAYS AS (a + 1));
INSERT INTO t VALUES (1, '', 2.5), (2, 'b''s', NULL);
INSERT INTO child(x) VALUES (1);
INSERT INTO s.z VALUES (1, NULL, '2020-01-02'), (2, '', NULL);
INSERT INTO g(a) VALUES (1);
CREATE VIEW v AS SELECT a FROM t;
CREATE MACRO m(x) AS x + 1;
CREATE INDEX i ON child(y);
"""


@pytest.mark.parametrize("options", ["", "(FORMAT parquet)", "(FORMAT json)"])
@pytest.mark.parametrize("is_from_duckdb", [True, False])
def test_duckdb(tmp_path: Path, options: str, is_from_duckdb: bool) -> None:
    folder = tmp_path / "x"
    with runnel.connect() as own, duckdb.connect() as other:
        before, after = (other, own) if is_from_duckdb else (own, other)
        before.execute(PLAIN)
        if options:
            before.execute(
                "CREATE TABLE l(a INT[]); INSERT INTO l VALUES ([1, NULL]), ([]), (NULL)"
            )
        before.execute(f"EXPORT DATABASE '{folder}' {options}")
        after.execute(f"IMPORT DATABASE '{folder}'")
        for name in ("t", "child", "s.z", "g", "v", *(["l"] if options else ())):
            assert rows(after, name) == rows(before, name), name
        assert after.execute("SELECT m(1), nextval('q')").fetchone() == (2, 7)
        with pytest.raises((runnel.IntegrityError, duckdb.ConstraintException)):
            after.execute("INSERT INTO child(x) VALUES (99)")


def test_attached_databases(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "d.duckdb") as file:
        file.execute(
            "CREATE TABLE t(a INT PRIMARY KEY); CREATE SCHEMA s; CREATE TABLE s.u(a INT);"
            "CREATE TABLE a_child(a INT REFERENCES t(a)); CREATE INDEX i ON s.u(a);"
            "INSERT INTO t VALUES (1); INSERT INTO s.u VALUES (2); INSERT INTO a_child VALUES (1)"
        )
    with runnel.connect() as connection:
        connection.execute(f"ATTACH '{tmp_path / 'd.duckdb'}' AS D; ATTACH ':memory:' AS e")
        connection.execute("CREATE TABLE own(a INT); INSERT INTO own VALUES (3)")
        connection.execute(f"EXPORT DATABASE d TO '{tmp_path / 'x'}'")
        connection.execute("COPY FROM DATABASE d TO e (SCHEMA)")
        assert rows(connection, "e.t") == []
        connection.execute("COPY FROM DATABASE d TO e (DATA)")
        connection.execute("COPY FROM DATABASE memory TO e")
        connection.execute("COPY FROM DATABASE d TO runnel")
        for name in ("t", "s.u", "a_child"):
            for database in ("e.", "runnel.public." if name != "s.u" else "runnel."):
                assert rows(connection, f"{database}{name}") == rows(connection, f"d.{name}")
        assert rows(connection, "e.own") == [(3,)]
        with pytest.raises(runnel.IntegrityError):
            connection.execute("INSERT INTO e.a_child VALUES (99)")
        found = connection.execute(
            "SELECT database_name, schema_name FROM duckdb_indexes() ORDER BY 1"
        ).fetchall()
        assert [(name.lower(), schema) for name, schema in found] == [
            ("d", "s"),
            ("e", "s"),
            ("runnel", "s"),
        ]
        connection.execute(f"USE e; EXPORT DATABASE '{tmp_path / 'y'}'; USE memory")
    for folder, expected in (("x", 2), ("y", 2)):
        with runnel.connect() as connection:
            connection.execute(f"IMPORT DATABASE '{tmp_path / folder}'")
            assert rows(connection, "s.u") == [(expected,)]
            assert rows(connection, "a_child") == [(1,)]


def test_what_is_left_out_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE TABLE t(a INT); CREATE VIEW kept AS SELECT * FROM t")
        connection.execute("CREATE MAPPING k (a INT) TYPE File OPTIONS ('path' = 'secret.csv')")
        connection.execute("CREATE VIEW over_k AS SELECT a FROM k")
        with caplog.at_level(logging.WARNING, "runnel"):
            connection.execute(f"EXPORT DATABASE '{tmp_path / 'x'}'")
    assert 'left out mapping "k", view "over_k"' in caplog.text
    text = (tmp_path / "x" / "schema.sql").read_text()
    assert '"kept"' in text and "over_k" not in text and "secret" not in text


def test_refusals(tmp_path: Path) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    full.mkdir()
    empty.mkdir()
    (full / "note.txt").write_text("mine")
    with runnel.connect() as connection:
        run = connection.execute
        run("CREATE TABLE t(a BLOB); INSERT INTO t VALUES ('\\xFF'::BLOB)")
        for sql, message in (
            (f"EXPORT DATABASE '{full}'", "is not an empty folder"),
            (f"EXPORT DATABASE '{full / 'note.txt'}'", "is not an empty folder"),
            ("EXPORT DATABASE 's3://bucket/x'", "can't write"),
            (f"EXPORT DATABASE '{empty}' (FORMAT orc)", "format orc is not supported"),
            (f"EXPORT DATABASE '{empty}' (PARTITION_BY a)", 'option "PARTITION_BY"'),
            (f"EXPORT DATABASE nope TO '{empty}'", 'database "nope" is not attached'),
            (f"IMPORT DATABASE '{empty}'", "can't be read"),
            ("COPY FROM DATABASE memory TO runnel", "are the same database"),
            ("COPY FROM DATABASE memory TO nope", 'database "nope" is not attached'),
            ("COPY FROM DATABASE memory TO b (ROWS)", "syntax error"),
            (f"EXPORT DATABASE '{tmp_path / 'new'}'", "cannot convert VARBINARY"),
        ):
            with pytest.raises(runnel.Error, match=message):
                run(sql)
        run("ALTER TABLE t ADD COLUMN b INT[]")
        with pytest.raises(runnel.NotSupportedError, match="which CSV has not"):
            run(f"EXPORT DATABASE '{empty}'")
        names = sorted(file.name for file in tmp_path.rglob("*"))
        assert names == ["empty", "full", "note.txt"]
        (empty / "schema.sql").write_text(f"CREATE TABLE u(a INT); IMPORT DATABASE '{empty}'")
        (empty / "load.sql").write_text("")
        with pytest.raises(runnel.NotSupportedError, match="does not run IMPORT"):
            run(f"IMPORT DATABASE '{empty}'")
        run("BEGIN")
        for sql in (
            f"EXPORT DATABASE '{tmp_path / 'new'}'",
            f"IMPORT DATABASE '{empty}'",
            "COPY FROM DATABASE memory TO b",
        ):
            with pytest.raises(runnel.NotSupportedError, match="not supported in a transaction"):
                run(sql)
        run("ROLLBACK")


def test_after_an_error_the_folder_is_removed(tmp_path: Path) -> None:
    """And the transaction in which the export reads has ended."""
    with runnel.connect() as connection:
        connection.execute("CREATE TABLE t(a BLOB); INSERT INTO t VALUES ('\\xFF'::BLOB)")
        with pytest.raises(runnel.Error):
            connection.execute(f"EXPORT DATABASE '{tmp_path / 'x'}'")
        assert not (tmp_path / "x").exists()
        connection.execute(f"EXPORT DATABASE '{tmp_path / 'x'}' (FORMAT parquet)")
        connection.execute("INSERT INTO t VALUES (NULL)")
        with pytest.raises(runnel.Error, match="without a transaction"):
            connection.execute("COMMIT")


def test_bounds(tmp_path: Path) -> None:
    with runnel.connect(allowed_paths=[tmp_path]) as connection:
        for sql in ("EXPORT DATABASE 'x'", "IMPORT DATABASE 'x'", "COPY FROM DATABASE a TO b"):
            with pytest.raises(runnel.ProgrammingError, match="callers without bounds"):
                connection.execute(sql)


def test_through_a_server(tmp_path: Path) -> None:
    """A client exports without a transaction, and imports into the database of the server."""
    with runnel.connect() as before, runnel.connect() as after:
        before.execute("CREATE TABLE t(a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        for connection, sql in (
            (before, f"EXPORT DATABASE '{tmp_path / 'x'}'"),
            (after, f"IMPORT DATABASE '{tmp_path / 'x'}'"),
        ):
            server = Server(connection, "a token of the tests")
            try:
                with runnel.connect(server.url, token="a token of the tests") as remote:
                    remote.execute(sql)
            finally:
                server.stop()
        assert rows(after, "t") == [(1,), (2,)]
