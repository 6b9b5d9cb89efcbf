"""Foreign keys: their errors, and ALTER TABLE, schemas, files and directories with them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import runnel


def _family(con: runnel.Connection) -> None:
    con.execute("CREATE TABLE p (id INT PRIMARY KEY, n INT)")
    con.execute("CREATE TABLE c (id INT, pid INT REFERENCES p, x INT)")
    con.execute("INSERT INTO p VALUES (1, 1), (2, 2)")
    con.execute("INSERT INTO c VALUES (1, 1, 1)")


def _refused(con: runnel.Connection, sql: str, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        con.execute(sql)
    return str(caught.value)


def test_errors_name_the_key_and_the_remedy() -> None:
    with runnel.connect() as con:
        _family(con)
        orphan = _refused(con, "INSERT INTO c VALUES (2, 9, 1)", runnel.IntegrityError)
        assert 'a constraint of table "c" is violated' in orphan
        assert "no row has the key id: 9, to which a FOREIGN KEY refers" in orphan
        referred = _refused(con, "DELETE FROM p WHERE id = 1", runnel.IntegrityError)
        assert "rows with pid: 1 refer to the row by a FOREIGN KEY" in referred
        assert "HINT: DELETE or UPDATE these rows before" in referred
        dropped = _refused(con, "DROP TABLE p CASCADE", runnel.ProgrammingError)
        assert 'table "p" can\'t be dropped: foreign keys refer to it' in dropped
        assert "HINT: DROP TABLE c first, or in the same statement" in dropped
        cascade = _refused(
            con, "CREATE TABLE d (a INT REFERENCES p ON DELETE SET NULL)", runnel.NotSupportedError
        )
        assert "ON DELETE SET NULL is not supported" in cascade and "DELETE FROM p" in cascade
        deferred = _refused(
            con, "CREATE TABLE d (a INT REFERENCES p DEFERRABLE)", runnel.NotSupportedError
        )
        assert "DEFERRABLE is not supported" in deferred
        temporary = _refused(
            con, "CREATE TEMP TABLE d (a INT REFERENCES p)", runnel.NotSupportedError
        )
        assert "different databases" in temporary
        con.execute("CREATE VIEW v AS SELECT 1 AS a")
        view = _refused(con, "CREATE TABLE d (a INT REFERENCES v (a))", runnel.ProgrammingError)
        assert '"v" is no table of CREATE TABLE' in view


def test_drop_of_both_tables_in_one_statement() -> None:
    with runnel.connect() as con:
        _family(con)
        con.execute("DROP TABLE p, c")
        assert con.execute("SHOW TABLES").fetchall() == []
        _family(con)
        assert con.execute("SELECT count(*) FROM c").fetchone() == (1,)


def test_alter_table(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as con:
        _family(con)
        con.execute("ALTER TABLE p RENAME TO parents")
        con.execute("ALTER TABLE c RENAME pid TO parent")
        con.execute("ALTER TABLE c ADD COLUMN y INT DEFAULT 1")
        con.execute("ALTER TABLE c RENAME TO children")
        con.execute("ALTER TABLE parents ALTER n SET DEFAULT 5")
        con.execute("CREATE TABLE more (a INT)")
        con.execute("ALTER TABLE more ADD FOREIGN KEY (a) REFERENCES parents (id)")
        con.execute("ALTER TABLE more ADD CONSTRAINT twice FOREIGN KEY (a) REFERENCES parents")
        column = _refused(con, "ALTER TABLE children DROP parent", runnel.NotSupportedError)
        assert "FOREIGN KEY (parent)" in column
        copied = _refused(con, "ALTER TABLE parents ADD COLUMN z INT", runnel.NotSupportedError)
        assert "foreign keys refer to it" in copied and "children, more" in copied
        _refused(con, "INSERT INTO more VALUES (7)", runnel.IntegrityError)
    with runnel.connect(tmp_path / "db") as con:
        (text,) = con.execute("SHOW CREATE TABLE children").fetchone()
        assert 'FOREIGN KEY ("parent") REFERENCES "parents" ("id")' in text
        _refused(con, "INSERT INTO children VALUES (2, 9, 1, 1)", runnel.IntegrityError)
        _refused(con, "DELETE FROM parents WHERE id = 1", runnel.IntegrityError)
        _refused(con, "INSERT INTO more VALUES (7)", runnel.IntegrityError)
        con.execute("INSERT INTO parents (id) VALUES (3)")
        con.execute("INSERT INTO children VALUES (2, 3, 1, 1)")
        con.execute("DROP TABLE children, more")
        con.execute("ALTER TABLE parents ADD COLUMN z INT")
        con.execute("DROP TABLE parents")


def test_schemas() -> None:
    with runnel.connect() as con:
        con.execute("CREATE SCHEMA s")
        con.execute("CREATE TABLE s.p (id INT PRIMARY KEY)")
        con.execute("CREATE TABLE c (a INT REFERENCES s.p (id))")
        con.execute("CREATE TABLE s.c (a INT PRIMARY KEY, b INT REFERENCES s.c)")
        _refused(con, "INSERT INTO c VALUES (1)", runnel.IntegrityError)
        kept = _refused(con, "DROP SCHEMA s CASCADE", runnel.ProgrammingError)
        assert 'table "s.p" can\'t be dropped' in kept
        con.execute("DROP TABLE c")
        con.execute("DROP SCHEMA s CASCADE")


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with runnel.connect(path) as con:
        _family(con)
        con.execute("CREATE TABLE tree (id INT PRIMARY KEY, up INT REFERENCES tree)")
        for change in ("p RENAME TO q", "c RENAME TO d", "p ADD COLUMN z INT", "c DROP x"):
            _refused(con, f"ALTER TABLE {change}", runnel.NotSupportedError)
        _refused(con, "CREATE OR REPLACE TABLE p (id INT)", runnel.ProgrammingError)
        _refused(con, "CREATE OR REPLACE TABLE c (id INT REFERENCES p)", runnel.NotSupportedError)
    with runnel.connect(path) as con:
        _refused(con, "INSERT INTO c VALUES (2, 9, 1)", runnel.IntegrityError)
        _refused(con, "DROP TABLE p", runnel.ProgrammingError)
        (text,) = con.execute("SHOW CREATE TABLE tree").fetchone()
        assert 'FOREIGN KEY ("up") REFERENCES "tree" ("id")' in text
    with duckdb.connect(str(path)) as oracle, pytest.raises(duckdb.ConstraintException):
        oracle.execute("DELETE FROM p WHERE id = 1")
    with runnel.connect() as con:
        con.execute(f"ATTACH '{path}' AS f")
        con.execute("CREATE TABLE f.more (a INT REFERENCES f.p (id))")
        _refused(con, "INSERT INTO f.more VALUES (9)", runnel.IntegrityError)
        _refused(con, "DROP TABLE f.p", runnel.ProgrammingError)
        con.execute("DROP TABLE f.p, f.more, f.c")


def test_a_transaction_writes_both_tables() -> None:
    with runnel.connect() as con:
        _family(con)
        con.execute("BEGIN")
        con.execute("INSERT INTO p VALUES (5, 5)")
        con.execute("INSERT INTO c VALUES (5, 5, 5)")
        con.execute("COMMIT")
        con.execute("BEGIN")
        _refused(con, "INSERT INTO c VALUES (6, 6, 6)", runnel.IntegrityError)
        con.execute("ROLLBACK")
        assert con.execute("SELECT count(*) FROM c").fetchone() == (2,)
