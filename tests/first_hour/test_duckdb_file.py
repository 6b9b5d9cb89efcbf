"""Connections to a DuckDB file: its tables are the tables of the connection, for both programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import runnel
from runnel.shell.command import main


def in_duckdb(path: Path, *statements: str) -> list[Any]:
    """The rows of the last of the statements, which DuckDB runs on a file."""
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    in_duckdb(
        path,
        "CREATE TABLE items (id INTEGER PRIMARY KEY, name VARCHAR DEFAULT 'none', CHECK (id > 0))",
        "INSERT INTO items VALUES (1, 'pen'), (2, 'cup')",
        "CREATE VIEW names AS SELECT name FROM items",
        'CREATE TABLE "Odd Name" AS SELECT 1 AS "A b"',
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE kinds AS SELECT 1::UTINYINT AS u, 'ok'::mood AS m, [1] AS l, {'a': 1} AS s",
        "CREATE TABLE bits AS SELECT '101'::BIT AS b",
    )
    return path


def test_its_tables_and_views_are_read(shop: Path) -> None:
    with runnel.connect(shop) as con:
        names = {name for (name,) in con.execute("SHOW TABLES").fetchall()}
        assert names == {"items", "names", "Odd Name", "kinds", "bits"}
        assert con.execute("FROM items ORDER BY id").fetchall() == [(1, "pen"), (2, "cup")]
        assert con.execute("SELECT count(*) FROM names").fetchone() == (2,)
        assert con.execute('SELECT "A b" FROM "Odd Name"').fetchone() == (1,)
        assert con.execute("SELECT u, m, l FROM kinds").fetchone() == (1, "ok", [1])
        assert con.execute("DESCRIBE items").fetchall()[1][4] == "'none'"
        assert repr(con) == f"<runnel.Connection to {str(shop)!r}>"


def test_a_type_without_counterpart_is_refused_when_it_is_used(shop: Path) -> None:
    with runnel.connect(shop) as con, pytest.raises(runnel.Error, match='"bits"') as error:
        con.execute("FROM bits").fetchall()
    assert "not supported: BIT" in str(error.value)


def test_changes_are_in_the_file(shop: Path) -> None:
    with runnel.connect(shop) as con:
        con.execute("INSERT INTO items (id) VALUES (3)")
        con.execute("UPDATE items SET name = 'mug' WHERE id = 2")
        con.execute("DELETE FROM items WHERE id = 1")
        for values, reason in (("(3, 'x')", "primary key has id: 3"), ("(-1, 'x')", "CHECK")):
            with pytest.raises(runnel.IntegrityError) as error:
                con.execute(f"INSERT INTO items VALUES {values}")
            assert reason in str(error.value)
        con.execute("BEGIN")
        con.execute("DELETE FROM items")
        con.execute("ROLLBACK")
    assert in_duckdb(shop, "FROM items ORDER BY id") == [(2, "mug"), (3, "none")]
    assert not shop.with_name("shop.duckdb.wal").exists()


def test_definitions_are_in_the_file(shop: Path) -> None:
    with runnel.connect(shop) as con:
        con.execute("CREATE TABLE more AS SELECT 5 AS x")
        con.execute("CREATE OR REPLACE TABLE more AS SELECT 6 AS y")
        con.execute("CREATE TABLE Keyed (k INTEGER PRIMARY KEY, v VARCHAR NOT NULL DEFAULT 'z')")
        con.execute("CREATE TEMP TABLE passing AS SELECT 1 AS x")
        con.execute("ALTER TABLE items ADD COLUMN price DOUBLE DEFAULT 1.5")
        con.execute("ALTER TABLE items RENAME name TO label")
        con.execute("ALTER TABLE items ALTER label SET DEFAULT 'any'")
        con.execute("ALTER TABLE more RENAME TO many")
        con.execute('DROP TABLE "Odd Name"')
        assert con.execute("FROM many").fetchall() == [(6,)]
        assert con.execute("SELECT * FROM items WHERE id = 1").fetchall() == [(1, "pen", 1.5)]
    names = in_duckdb(shop, "SELECT table_name FROM duckdb_tables() ORDER BY ALL")
    assert names == [("Keyed",), ("bits",), ("items",), ("kinds",), ("many",)]
    assert in_duckdb(shop, "INSERT INTO items (id) VALUES (7) RETURNING *") == [(7, "any", 1.5)]
    assert in_duckdb(shop, "INSERT INTO keyed (k) VALUES (1) RETURNING *") == [(1, "z")]
    with pytest.raises(duckdb.ConstraintException):
        in_duckdb(shop, "INSERT INTO items (id) VALUES (7)")


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        ((), 'column "u" is of type UTINYINT'),
        (
            ("CREATE OR REPLACE TABLE kinds (a INT, b INT GENERATED ALWAYS AS (a + 1))",),
            "a generated column",
        ),
    ],
)
def test_a_change_that_would_lose_something_is_refused(
    shop: Path, statements: Sequence[str], reason: str
) -> None:
    in_duckdb(shop, "SELECT 1", *statements)
    before = in_duckdb(shop, "SELECT sql FROM duckdb_tables() ORDER BY ALL")
    with runnel.connect(shop) as con:
        with pytest.raises(runnel.NotSupportedError) as error:
            con.execute("ALTER TABLE kinds ADD COLUMN extra INTEGER")
        assert reason in str(error.value)
        assert "change the table in DuckDB" in str(error.value)
    assert in_duckdb(shop, "SELECT sql FROM duckdb_tables() ORDER BY ALL") == before


def test_a_new_name_makes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new.duckdb"
    with runnel.connect(str(path)) as con:
        con.execute("CREATE TABLE t AS SELECT 42 AS answer")
    assert in_duckdb(path, "FROM t") == [(42,)]
    with runnel.connect(str(path)) as con:
        assert con.execute("FROM t").fetchall() == [(42,)]


def test_a_directory_of_that_name_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    path.mkdir()
    with runnel.connect(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert (path / "catalog.json").exists()


def test_errors_of_opening(tmp_path: Path, shop: Path) -> None:
    text = tmp_path / "f.csv"
    text.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(runnel.OperationalError, match="not a DuckDB database") as error:
        runnel.connect(text)
    assert "FROM 'f.csv'" in str(error.value)
    with runnel.connect(shop), pytest.raises(runnel.OperationalError, match="open elsewhere"):
        runnel.connect(shop)
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(shop.read_bytes()[:5000])
    with pytest.raises(runnel.OperationalError, match=r"broken\.duckdb"):
        runnel.connect(broken)


def test_its_file_can_be_named_by_a_mapping(shop: Path) -> None:
    in_duckdb(shop, "CREATE SCHEMA other", "CREATE TABLE other.z AS SELECT 7 AS q")
    with runnel.connect(shop) as con:
        con.execute('CREATE MAPPING z EXTERNAL NAME "other.z" TYPE DuckDB')
        con.execute(
            f"CREATE MAPPING same EXTERNAL NAME items TYPE DuckDB OPTIONS ('path' = '{shop}')"
        )
        assert con.execute("SELECT q, (SELECT count(*) FROM same) FROM z").fetchone() == (7, 2)


def test_the_shell_opens_it(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(shop), "-c", "SELECT name FROM items ORDER BY id", "--csv"]) == 0
    assert capsys.readouterr().out == "name\npen\ncup\n"


def test_what_a_file_does_not_store_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with runnel.connect(tmp_path / "shop.duckdb") as con:
        con.execute("CREATE TABLE t (a INT)")
        con.execute("CREATE TEMP MACRO gone(x) AS x")
        assert caplog.messages == []
        con.execute("CREATE MACRO twice(x) AS 2 * x")
        con.execute("CREATE VIEW v AS SELECT a FROM t")
        assert [text.partition(":")[0] for text in caplog.messages] == [
            'macro "twice" ends with the connection',
            'view "v" ends with the connection',
        ]
    caplog.clear()
    with runnel.connect(tmp_path / "folder") as con:
        con.execute("CREATE MACRO twice(x) AS 2 * x")
        assert caplog.messages == []
