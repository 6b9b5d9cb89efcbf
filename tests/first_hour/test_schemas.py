"""Schemas and attached DuckDB files: the same statements as in DuckDB, with the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import runnel

SHOP = (
    "CREATE TABLE c (id INT PRIMARY KEY, n VARCHAR DEFAULT 'x', p DECIMAL(9, 2) DEFAULT 1.5)",
    "INSERT INTO c VALUES (1, 'a', 2), (2, 'b', 3)",
    "CREATE SCHEMA st",
    "CREATE TABLE st.x AS SELECT 1 AS a",
    "CREATE VIEW v AS SELECT count(*) AS k FROM c",
)

ATTACHED = (
    "ATTACH 'shop.duckdb' AS o",
    "ATTACH IF NOT EXISTS 'shop.duckdb' AS o",
    "SELECT * FROM o.c ORDER BY id",
    "SELECT o.c.n, c.n, o.main.c.id FROM o.main.c WHERE o.c.id = 1",
    "SELECT * FROM o.v",
    "SELECT * FROM o.st.x",
    "INSERT INTO o.c (id) VALUES (7)",
    "SELECT * FROM o.c WHERE id = 7",
    "UPDATE o.c SET n = 'z' WHERE id = 7",
    "UPDATE o.main.c SET n = 'y' WHERE o.main.c.id = 7",
    "DELETE FROM o.c WHERE o.c.id = 1",
    "SELECT * FROM o.c ORDER BY id",
    "CREATE OR REPLACE TABLE o.cust AS SELECT 1 AS id, 'u' AS nm",
    "CREATE TABLE o.main.pp (a INT PRIMARY KEY, b VARCHAR DEFAULT 'hey')",
    "INSERT INTO o.pp (a) VALUES (3)",
    "FROM o.pp",
    "CREATE SCHEMA IF NOT EXISTS o.stage",
    "CREATE OR REPLACE TABLE o.stage.x AS SELECT 2 AS a",
    "FROM o.stage.x JOIN o.st.x y ON x.a > y.a",
    "ALTER TABLE o.cust ADD COLUMN c INT DEFAULT 5",
    "ALTER TABLE o.cust RENAME TO people",
    "FROM o.people",
    "USE o",
    "FROM people",
    "CREATE TABLE mine (i INT)",
    "INSERT INTO main.mine VALUES (4)",
    "FROM o.main.mine",
    "FROM st.x",
    "SELECT current_schema(), current_database()",
    "SHOW TABLES",
    "SELECT database, schema, name FROM (SHOW ALL TABLES) ORDER BY ALL",
    "USE memory",
    "CREATE TABLE mine AS SELECT 'own' AS w",
    "FROM mine",
    "FROM o.mine",
    "DROP TABLE o.mine",
    "SHOW TABLES",
    "SHOW TABLES FROM o",
    "SELECT table_catalog, table_schema, table_name FROM information_schema.tables "
    "WHERE table_catalog = 'o' ORDER BY ALL",
    "DROP SCHEMA o.stage CASCADE",
    "DETACH o",
    "ATTACH ':memory:' AS m",
    "CREATE TABLE m.t AS SELECT 42 AS a",
    "FROM m.t",
    "DETACH m",
    "ATTACH 'shop.duckdb' (TYPE duckdb, READ_ONLY)",
    "FROM shop.people",
    "DETACH DATABASE shop",
    "DETACH IF EXISTS shop",
    "ATTACH 'new.duckdb' AS n",
    "CREATE TABLE n.t AS SELECT 1 AS a",
    "DETACH n",
    "ATTACH 'new.duckdb' AS n",
    "FROM n.t",
)
"""Statements on a connection in memory next to a file with SHOP."""

SCHEMAS = (
    "CREATE SCHEMA s",
    "CREATE SCHEMA IF NOT EXISTS s",
    "CREATE TABLE t AS SELECT 'own' AS w",
    "CREATE TABLE s.t (a INT PRIMARY KEY, b INT DEFAULT 5)",
    "INSERT INTO s.t (a) VALUES (1), (2)",
    "SELECT s.t.a, t.b FROM s.t ORDER BY a",
    "SELECT a FROM s.t WHERE EXISTS (SELECT 1 FROM t WHERE s.t.a = 1)",
    "WITH t AS (SELECT 9 AS a) SELECT t.a, x.a FROM t, s.t x ORDER BY ALL",
    "UPDATE s.t SET b = 6 WHERE a = 2",
    "UPDATE s.t SET b = s.t.b + 1 WHERE s.t.a = 2",
    "DELETE FROM s.t WHERE s.t.a = 1 RETURNING s.t.a",
    "MERGE INTO s.t USING (SELECT 2 AS a, 7 AS b) n USING (a) WHEN MATCHED THEN UPDATE SET b = n.b",
    "FROM s.t",
    "CREATE VIEW s.v AS SELECT sum(b) AS b FROM s.t",
    "FROM s.v",
    "USE s",
    "FROM t",
    "FROM main.t",
    "CREATE TABLE u AS SELECT (b + 1)::INT AS b FROM t",
    "CREATE TEMP TABLE tmp AS SELECT 3 AS x",
    "FROM tmp",
    "DESCRIBE u",
    "SHOW TABLES FROM s",
    "USE main",
    "FROM s.u",
    "SET search_path = 's,main'",
    "FROM t",
    "FROM u",
    "RESET search_path",
    "FROM t",
    "SET schema = 's'",
    "FROM t",
    "SET schema = 'main'",
    "ALTER TABLE s.u RENAME b TO c",
    "ALTER TABLE s.u RENAME TO w",
    "FROM s.w",
    "CREATE OR REPLACE TABLE s.w AS SELECT 8 AS z",
    "FROM s.w",
    "DROP VIEW s.v",
    "DROP TABLE IF EXISTS s.nothing",
    "SELECT table_schema, table_name FROM information_schema.tables "
    "WHERE table_schema = 's' ORDER BY ALL",
    "SELECT schema_name FROM information_schema.schemata WHERE schema_name = 's'",
    "DROP SCHEMA s CASCADE",
    "SELECT count(*) FROM information_schema.tables WHERE table_schema = 's'",
    "DROP SCHEMA IF EXISTS s",
)


def rows(connection: Any, sql: str, *, has_rows: bool) -> list[Any]:
    found = connection.execute(sql)
    return list(found.fetchall()) if has_rows else []


def compared(statements: tuple[str, ...], own: runnel.Connection) -> None:
    with duckdb.connect() as other, own:
        for sql in statements:
            has_rows = sql.split()[0] in ("SELECT", "FROM", "WITH", "SHOW", "DESCRIBE")
            has_rows = has_rows or "RETURNING" in sql
            expected = rows(other, sql, has_rows=has_rows)
            if not sql.startswith("DESCRIBE"):
                assert rows(own, sql, has_rows=has_rows) == expected, sql
            else:
                assert [row[:2] for row in rows(own, sql, has_rows=True)] == [
                    row[:2] for row in expected
                ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.duckdb") as connection:
        for sql in SHOP:
            connection.execute(sql)
    return tmp_path


def run(connection: runnel.Connection, sql: str) -> list[Any]:
    found = connection.execute(sql)
    return list(found.fetchall()) if found.description else []


def test_attached_files(folder: Path) -> None:
    """DuckDB runs the statements on a copy of the file: only one of both can have it open."""
    expected = []
    (folder / "theirs").mkdir()
    (folder / "theirs" / "shop.duckdb").write_bytes((folder / "shop.duckdb").read_bytes())
    with duckdb.connect() as other:
        for sql in ATTACHED:
            mine = sql.replace("ATTACH '", "ATTACH 'theirs/").replace("theirs/:", ":")
            found = other.execute(mine.replace("EXISTS 'shop", "EXISTS 'theirs/shop"))
            expected.append(found.fetchall())
    with runnel.connect() as connection:
        for sql, known in zip(ATTACHED, expected, strict=True):
            found_rows = run(connection, sql)
            if sql.split()[0] in ("SELECT", "FROM", "SHOW"):
                assert found_rows == known, sql
    with duckdb.connect("shop.duckdb") as other:
        assert other.execute("FROM people").fetchall() == [(1, "u", 5)]
        assert other.execute(
            "SELECT column_default FROM duckdb_columns() WHERE table_name = 'pp'"
            " ORDER BY column_index"
        ).fetchall()[1] == ("'hey'",)


def test_schemas_in_memory() -> None:
    compared(SCHEMAS, runnel.connect())


def test_schemas_in_a_directory(tmp_path: Path) -> None:
    compared(SCHEMAS, runnel.connect(tmp_path / "compared"))
    with runnel.connect(tmp_path / "d") as connection:
        run(connection, "CREATE SCHEMA s")
        run(connection, "CREATE TABLE s.t AS SELECT 1 AS a")
        run(connection, "USE s")
        run(connection, "CREATE VIEW v AS SELECT a + 1 AS b FROM t")
    with runnel.connect(tmp_path / "d") as connection:
        run(connection, "CREATE TABLE t AS SELECT 100 AS a")
        assert run(connection, "FROM s.v") == [(2,)]
        assert run(connection, "SHOW TABLES FROM s") == [("t",), ("v",)]
        assert 'CREATE TABLE "s"."t"' in run(connection, "SHOW CREATE TABLE s.t")[0][0]
        assert run(connection, "PRAGMA table_info('s.t')")[0][1] == "a"


def test_schemas_of_a_file(folder: Path) -> None:
    compared(SCHEMAS, runnel.connect("own.duckdb"))
    with runnel.connect("shop.duckdb") as connection:
        assert run(connection, "FROM st.x") == [(1,)]
        assert run(connection, "SELECT shop.main.c.id FROM shop.main.c WHERE id = 1") == [(1,)]
        assert run(connection, "SELECT shop.c.* EXCLUDE (n, p) FROM shop.c WHERE id = 1") == [(1,)]
        assert run(connection, "SELECT shop.main.c.* FROM c WHERE id = 2")[0][:2] == (2, "b")
        assert run(connection, "UPDATE shop.c SET n = 'q' WHERE shop.main.c.id < 0") == []
        run(connection, "CREATE SCHEMA z")
        run(connection, "CREATE TABLE z.n (a INT DEFAULT 4, b INT)")
        run(connection, "INSERT INTO z.n (b) VALUES (1)")
        run(connection, "USE z")
        assert run(connection, "FROM n") == [(4, 1)]
        run(connection, "USE shop")
        assert run(connection, "SELECT count(*) FROM c") == [(2,)]
    with duckdb.connect("shop.duckdb") as other:
        other.execute("INSERT INTO z.n (b) VALUES (2)")
        assert other.execute("FROM z.n").fetchall() == [(4, 1), (4, 2)]


def test_a_file_name_is_no_qualified_name(folder: Path) -> None:
    """FROM 'data.csv' reads the file, also if the schema data has a table csv."""
    Path("data.csv").write_text("a\n1\n")
    Path("main.csv").write_text("a\n2\n")
    with runnel.connect() as connection:
        run(connection, "CREATE SCHEMA data")
        run(connection, "CREATE TABLE data.csv AS SELECT 'table' AS w")
        run(connection, "CREATE TABLE csv AS SELECT 'own' AS w")
        assert run(connection, "FROM 'data.csv'") == [(1,)]
        assert run(connection, "FROM 'main.csv'") == [(2,)]
        run(connection, "USE data")
        assert run(connection, "FROM 'data.csv'") == [(1,)]
        assert run(connection, "FROM data.csv") == [("table",)]


def test_a_plan_follows_the_search_path() -> None:
    with runnel.connect() as connection:
        for sql in (
            "CREATE SCHEMA s",
            "CREATE TABLE t AS SELECT 1 AS a",
            "CREATE TABLE s.t AS SELECT 2 AS a",
        ):
            run(connection, sql)
        found = []
        for path in ("public", "s", "public", "s"):
            run(connection, f"USE {path}")
            found.append(run(connection, "SELECT a FROM t")[0][0])
        assert found == [1, 2, 1, 2]
        run(connection, "SET search_path = s, public")
        run(connection, "DROP TABLE s.t")
        assert run(connection, "SELECT a FROM t") == [(1,)]
        run(connection, "CREATE TABLE s.t AS SELECT 3 AS a")
        assert run(connection, "SELECT a FROM t") == [(3,)]


def test_changes_in_a_transaction(folder: Path) -> None:
    with runnel.connect() as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o")
        run(connection, "CREATE TABLE t (a INT)")
        run(connection, "BEGIN")
        run(connection, "INSERT INTO o.c (id) VALUES (9)")
        with pytest.raises(runnel.NotSupportedError, match="tables of one database"):
            run(connection, "INSERT INTO t VALUES (1)")
        run(connection, "ROLLBACK")
        assert run(connection, "SELECT count(*) FROM o.c") == [(2,)]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("FROM nope.t", 'schema "nope" does not exist'),
        ("CREATE TABLE nope.t (a INT)", 'schema "nope" does not exist'),
        ("INSERT INTO nope.t VALUES (1)", 'no schema "nope": write CREATE SCHEMA nope, or ATTACH'),
        ("FROM nope.main.t", 'catalog "nope" does not exist'),
        ("USE nope", 'schema "nope" does not exist'),
        ("SET search_path = 'nope'", 'schema "nope" does not exist'),
        ("SHOW TABLES FROM nope", 'schema "nope" does not exist'),
        ("CREATE SCHEMA o", "exists already|can't be called"),
        ("CREATE SCHEMA s", 'schema "s" exists already'),
        ("CREATE SCHEMA main", 'schema "main" exists already'),
        ("DROP SCHEMA s", 'is not empty[\\s\\S]*"s.t"[\\s\\S]*CASCADE'),
        ("DROP SCHEMA public", "can't be dropped"),
        ("DROP SCHEMA o", "can't be dropped[\\s\\S]*DETACH o"),
        ("DROP SCHEMA nothing", "does not exist"),
        ("ATTACH 'shop.duckdb' AS p", 'attached already, as "o"'),
        ("ATTACH 'new.duckdb' AS o", "attached already"),
        ("ATTACH 'new.duckdb' AS s", "exists already"),
        ("ATTACH 'none/x.duckdb'", "no folder"),
        ("ATTACH 'a\0b' AS z", "NUL character"),
        ("ATTACH 'text.csv' AS t", "text.csv"),
        ("ATTACH 'x.db' (TYPE sqlite)", "ATTACH of SQLITE is not supported"),
        ("ATTACH 'postgres:dbname=x' AS p", "ATTACH of POSTGRES is not supported"),
        ("ATTACH 'y.db' (COMPRESSED)", "option COMPRESSED of ATTACH"),
        ("DETACH nope", "is not attached"),
        ("CREATE VIEW o.w AS SELECT 1", "CREATE VIEW in an attached database"),
        ("CREATE TABLE o.k (id SERIAL)", "sequences are in the schema public"),
        ("CREATE TEMP TABLE s.k (id INT)", "temporary object can't be in schema"),
        ("CREATE SEQUENCE s.q", "can't be in schema"),
        ("SELECT s.t.a FROM o.c", 'no table in FROM is in a schema "s"'),
        ("CREATE TABLE information_schema.t (a INT)", "can only be queried"),
    ],
)
def test_errors(folder: Path, sql: str, words: str) -> None:
    Path("text.csv").write_text("a\n1\n")
    with runnel.connect() as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o")
        run(connection, "CREATE SCHEMA s")
        run(connection, "CREATE TABLE s.t (a INT)")
        with pytest.raises(runnel.Error, match=words):
            run(connection, sql)


def test_sequences_of_a_file(folder: Path) -> None:
    """A DEFAULT of an attached file draws from the file's sequence, not from the connection's."""
    with duckdb.connect("shop.duckdb") as other:
        other.execute("CREATE SEQUENCE q START 100")
        other.execute("CREATE TABLE n (id INT DEFAULT nextval('q'), a INT)")
        other.execute("CREATE SEQUENCE st.q START 500")
        other.execute("USE st")
        other.execute("CREATE TABLE n (id INT DEFAULT nextval('q'), a INT)")
    with runnel.connect() as connection:
        run(connection, "CREATE SEQUENCE q")
        run(connection, "ATTACH 'shop.duckdb' AS o")
        for sql in (
            "INSERT INTO o.n (a) VALUES (1)",
            "INSERT INTO o.n VALUES (DEFAULT, 1)",
            "INSERT INTO o.st.n (a) VALUES (1)",
            "CREATE TABLE o.m (id INT DEFAULT nextval('q'))",
            "ALTER TABLE o.c ADD COLUMN k INT DEFAULT nextval('q')",
            "ALTER TABLE o.c ALTER id SET DEFAULT nextval('q')",
        ):
            with pytest.raises(runnel.NotSupportedError, match="DEFAULT nextval"):
                run(connection, sql)
        run(connection, "INSERT INTO o.n VALUES (nextval('q'), 1)")
        run(connection, "ALTER TABLE o.n RENAME TO nn")
        assert run(connection, "FROM o.nn") == [(1, 1)]
        assert "nextval('q')" in run(connection, "SHOW CREATE TABLE o.nn")[0][0]
    with runnel.connect("shop.duckdb") as connection:
        run(connection, "INSERT INTO nn (a) VALUES (2)")
        assert run(connection, "SELECT id FROM nn WHERE a = 2") == [(100,)]
        for sql in (
            "INSERT INTO st.n (a) VALUES (2)",
            "CREATE TABLE st.m (id INT DEFAULT nextval('q'))",
        ):
            with pytest.raises(runnel.NotSupportedError, match="of column"):
                run(connection, sql)


def test_comments_of_an_attached_file(folder: Path) -> None:
    shown = "SELECT table_comment FROM information_schema.tables WHERE table_name = 'c'"
    with runnel.connect() as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o")
        run(connection, "COMMENT ON TABLE o.c IS 'goods'")
        run(connection, "COMMENT ON COLUMN o.main.c.n IS 'name'")
        assert run(connection, shown) == [("goods",)]
    with duckdb.connect("shop.duckdb") as other:
        found = other.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'c'")
        assert found.fetchall() == [("goods",)]
    with runnel.connect() as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o")
        assert run(connection, shown) == [("goods",)]
        assert run(
            connection,
            "SELECT column_comment FROM information_schema.columns "
            "WHERE table_name = 'c' AND column_name = 'n'",
        ) == [("name",)]


def test_generated_columns_of_a_file(folder: Path) -> None:
    with duckdb.connect("shop.duckdb") as other:
        other.execute("CREATE TABLE g (a INT, b INT AS (a + 1), c INT DEFAULT 4)")
    with runnel.connect() as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o")
        run(connection, "INSERT INTO o.g (a) VALUES (1)")
        run(connection, "INSERT INTO o.g VALUES (2, 5), (3, 6)")
        run(connection, "UPDATE o.g SET a = 10 WHERE b = 3")
        run(connection, "DELETE FROM o.g WHERE b = 4")
        assert run(connection, "FROM o.g ORDER BY a") == [(1, 2, 4), (10, 11, 5)]
        for sql in ("INSERT INTO o.g (b) VALUES (1)", "UPDATE o.g SET b = 1"):
            with pytest.raises(runnel.ProgrammingError, match=r'"b" of table "o[.]g" is computed'):
                run(connection, sql)
        for sql in (
            "INSERT INTO o.g (a) VALUES (1) RETURNING b",
            "UPDATE o.g SET a = 1 RETURNING b",
            "ALTER TABLE o.g ADD COLUMN d INT DEFAULT 1",
        ):
            with pytest.raises(runnel.NotSupportedError, match=r"DuckDB|not supported"):
                run(connection, sql)


def test_a_read_only_file(folder: Path) -> None:
    with runnel.connect() as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o (READ_ONLY)")
        assert run(connection, "SELECT count(*) FROM o.c") == [(2,)]
        for sql in ("INSERT INTO o.c (id) VALUES (5)", "CREATE TABLE o.t (a INT)"):
            with pytest.raises(runnel.NotSupportedError, match="READ_ONLY"):
                run(connection, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE r.c RENAME TO other",
        "ALTER TABLE r.c ADD COLUMN more INT",
        "DROP TABLE r.c",
        "DROP SCHEMA r.st CASCADE",
        "CREATE SCHEMA r.more",
    ],
)
def test_read_only_holds_where_another_name_may_write(folder: Path, sql: str) -> None:
    with runnel.connect() as connection:
        run(
            connection,
            "CREATE MAPPING w EXTERNAL NAME c TYPE DuckDB OPTIONS ('path'='shop.duckdb')",
        )
        run(connection, "INSERT INTO w (id) VALUES (9)")
        run(connection, "ATTACH 'shop.duckdb' AS r (READ_ONLY)")
        with pytest.raises(runnel.NotSupportedError, match="READ_ONLY"):
            run(connection, sql)
        assert run(connection, "SELECT count(*) FROM r.c") == [(3,)]
        assert run(connection, "FROM r.st.x") == [(1,)]


def test_quoted_names_with_dots(folder: Path) -> None:
    with runnel.connect() as connection:
        for sql in ("ATTACH 'shop.duckdb' AS d", "CREATE SCHEMA s", "CREATE TABLE s.t (a INT)"):
            run(connection, sql)
        for name in ("s.t", "S.new", "d.st.x", "d.main.c"):
            for sql in (
                f'CREATE OR REPLACE TABLE "{name}" (a INT)',
                f'CREATE VIEW "{name}" AS SELECT 1',
            ):
                with pytest.raises(runnel.ProgrammingError, match="can't be the name of an object"):
                    run(connection, sql)
        run(connection, "CREATE TABLE plain (a INT)")
        with pytest.raises(runnel.ProgrammingError, match="can't be the name of an object"):
            run(connection, 'ALTER TABLE plain RENAME TO "s.t"')
        run(connection, 'CREATE TABLE "other.t" (a INT)')
        assert run(connection, 'FROM "other.t"') == []
        assert run(connection, "FROM d.st.x") == [(1,)]


def test_names_that_only_duckdb_tells_apart(folder: Path) -> None:
    with duckdb.connect("odd.duckdb") as other:
        for sql in (
            'CREATE SCHEMA "do.t"',
            'CREATE TABLE "do.t".z AS SELECT 1 AS a',
            "CREATE SCHEMA t",
            "CREATE TABLE t.keep AS SELECT 2 AS a",
            'CREATE SCHEMA "Ä"',
            'CREATE TABLE "Ä".k AS SELECT 3 AS a',
            'CREATE SCHEMA "ä"',
            'CREATE TABLE "ä".k2 AS SELECT 4 AS a',
            'CREATE TABLE "Ü" AS SELECT 5 AS a',
            'CREATE TABLE "ü" AS SELECT 6 AS a',
        ):
            other.execute(sql)
    with runnel.connect() as connection:
        run(connection, "ATTACH 'odd.duckdb' AS d")
        with pytest.raises(runnel.ProgrammingError):
            run(connection, 'DROP SCHEMA d."do.t" CASCADE')
        run(connection, 'DROP TABLE d."ü"')
        run(connection, 'DROP SCHEMA d."ä" CASCADE')
    with duckdb.connect("odd.duckdb") as other:
        left = other.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL"
        ).fetchall()
    assert left == [("do.t", "z"), ("main", "ü"), ("t", "keep"), ("ä", "k2")]


def test_a_table_that_another_one_refers_to(folder: Path) -> None:
    with duckdb.connect("keys.duckdb") as other:
        other.execute("CREATE TABLE base (id INT PRIMARY KEY)")
        other.execute("CREATE TABLE detail (id INT REFERENCES base (id))")
    with runnel.connect() as connection:
        run(connection, "ATTACH 'keys.duckdb' AS d")
        with pytest.raises(runnel.Error):
            run(connection, "DROP TABLE d.base")
        assert run(connection, "FROM d.base") == []
        for sql in ("DROP TABLE d.detail", "DROP TABLE d.base", "CREATE TABLE d.base (x INT)"):
            run(connection, sql)


def test_a_job_looks_in_its_schema() -> None:
    with runnel.connect() as connection:
        for sql in ("CREATE SCHEMA s", "CREATE TABLE s.t (a INT)", "USE s"):
            run(connection, sql)
        run(connection, "CREATE JOB j AS INSERT INTO t SELECT 1")
        connection.job("j").join(60)
        assert run(connection, "FROM s.t") == [(1,)]


def test_within_bounds(folder: Path) -> None:
    with (
        runnel.connect(allowed_paths=[str(folder)]) as connection,
        pytest.raises(runnel.ProgrammingError, match="callers without bounds"),
    ):
        run(connection, "ATTACH 'shop.duckdb' AS o")


def test_a_statement_set_writes_into_public_under_a_path() -> None:
    with runnel.connect() as connection:
        for sql in (
            "CREATE SCHEMA s",
            "CREATE TABLE t (a INT)",
            "CREATE TABLE s.t (a VARCHAR)",
            "SET search_path = 's,public'",
            "EXECUTE STATEMENT SET BEGIN INSERT INTO public.t VALUES (1); END",
        ):
            run(connection, sql)
        assert run(connection, "FROM public.t") == [(1,)]
        assert run(connection, "FROM s.t") == []
        shown = "SELECT column_type FROM (DESCRIBE {})"
        assert run(connection, shown.format("public.t")) == [("INTEGER",)]
        assert run(connection, shown.format("t")) == [("VARCHAR",)]


def test_create_like_in_schemas(folder: Path) -> None:
    """CREATE TABLE … LIKE creates the table in the schema that it names."""
    with runnel.connect() as connection:
        for sql in (
            "ATTACH 'shop.duckdb' AS o",
            "CREATE SCHEMA s",
            "CREATE TABLE o.copy (LIKE o.c INCLUDING ALL)",
            "INSERT INTO o.copy VALUES (1, 'kept', 1)",
            "CREATE TABLE o.st.second LIKE o.c",
            "CREATE TABLE s.third (LIKE o.c)",
            "CREATE TABLE s.fourth (LIKE s.third, more INT)",
            "USE s",
            "CREATE TABLE fifth (LIKE third)",
            "CREATE TABLE public.sixth LIKE third",
        ):
            run(connection, sql)
        names = [f"{row[0]}.{row[1]}.{row[2]}" for row in run(connection, "SHOW ALL TABLES")]
        added = {name for name in names if name.split(".")[2] not in ("c", "x", "v")}
        own = {f"runnel.s.{name}" for name in ("third", "fourth", "fifth")}
        assert added == {"o.main.copy", "o.st.second", "runnel.public.sixth", *own}
    with duckdb.connect("shop.duckdb") as other:
        assert len(other.execute("FROM copy").fetchall()) == 1
        assert other.execute("FROM st.second").fetchall() == []


def test_mappings_under_a_path(tmp_path: Path) -> None:
    """CREATE TABLE … WITH is in the first schema of the path, or in the one that it names."""
    options = f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/{{}}')"
    with runnel.connect() as connection:
        for sql in ("CREATE SCHEMA s", "CREATE TABLE s.m (k INT)", "SET search_path = 's,public'"):
            run(connection, sql)
        run(connection, f"CREATE TABLE n {options.format('n')} AS SELECT 2 AS a")
        run(connection, f"CREATE TABLE s.like_n {options.format('k')} LIKE s.m")
        run(connection, f"CREATE TABLE public.m {options.format('m')} AS SELECT 1 AS a")
        run(connection, f"CREATE TABLE public.like_m {options.format('l')} LIKE public.m")
        run(connection, "ALTER TABLE public.m SET ('csv.field-delimiter' = ',')")
        run(connection, "ALTER TABLE like_m RENAME TO l")
        run(connection, "ALTER TABLE like_n RENAME TO p")
        assert run(connection, "FROM public.m") == [(1,)]
        assert run(connection, "FROM s.n") == [(2,)]
        assert run(connection, "FROM public.l") == run(connection, "FROM s.m") == []
        assert run(connection, "FROM s.p") == []


def test_a_mapping_of_an_attached_file(folder: Path) -> None:
    """A file stores no mapping; a database in memory ends with the connection, as its mappings."""
    options = f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}/n')"
    with runnel.connect(folder / "own") as connection:
        run(connection, "ATTACH 'shop.duckdb' AS o")
        with pytest.raises(runnel.NotSupportedError, match=r"write|runnel[.]public"):
            run(connection, f"CREATE TABLE o.n (a INT) {options}")
        run(connection, "ATTACH ':memory:' AS c")
        run(connection, f"CREATE TABLE c.n {options} AS SELECT 1 AS a")
        assert run(connection, "FROM c.n") == [(1,)]
        run(connection, "CREATE SCHEMA s")
        run(connection, f"CREATE TABLE s.n (a INT) {options}")
    with runnel.connect(folder / "own") as connection:
        assert run(connection, "SHOW CATALOGS") == [("runnel",)]
        assert run(connection, "FROM s.n") == [(1,)]
        run(connection, "DROP SCHEMA s CASCADE")
    with runnel.connect(folder / "own") as connection:
        assert run(connection, "SHOW ALL TABLES") == []


def test_a_name_that_begins_like_its_schema() -> None:
    """Only the qualifiers of a name are left out, not the same text in quotes."""
    with runnel.connect() as connection:
        run(connection, 'CREATE TABLE public."public.x" (a INT)')
        assert run(connection, "SHOW TABLES") == [("public.x",)]
        run(connection, 'CREATE SEQUENCE public."a.b" START 4')
        assert run(connection, "SELECT sequence_name FROM duckdb_sequences()") == [("a.b",)]
