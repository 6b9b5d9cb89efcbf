"""What is said to those who bring habits of other engines: the remedy in our SQL."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import runnel
from runnel.settings import SETTINGS

ROWS = "(VALUES (1)) AS t (a)"
REMEDIES = [
    (
        "WITH r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
        "write WITH RECURSIVE r",
    ),
    ("RESET nothing_like_it", "the settings are"),
    ("SHOW RESOURCES", "write SHOW RESOURCES FOR name"),
    ("SET statement_timeout = 5", "cursor.execute(sql, args, timeout=seconds)"),
    ("SET search_path = x", 'there is one schema, "public"'),
    ("SET threads = 4", "runnel.connect(cooperative_threads=…)"),
    ("SELECT * FROM 'file.csv'", "write SELECT * FROM CSV_FILE('file.csv')"),
    ("SELECT * FROM 'a/file.parquet' AS f", "write SELECT * FROM PARQUET_FILE('a/file.parquet')"),
    ("SELECT * FROM 'file.json.gz'", "write SELECT * FROM JSON_FILE('file.json.gz')"),
    ("SELECT * FROM 'file.feather'", "write SELECT * FROM ARROW_FILE('file.feather')"),
    ("SELECT * FROM file", "create it with CREATE MAPPING"),
    ("SELECT * FROM read_csv('file.csv')", "use CSV_FILE(…)"),
    ("SELECT * FROM read_parquet('file.csv')", "use PARQUET_FILE(…)"),
    ("SELECT * FROM read_json_auto('file.csv')", "use JSON_FILE(…)"),
    ("SELECT * FROM parquet_scan('file.csv')", "use PARQUET_FILE(…)"),
    ("SELECT * FROM parket_file('file.csv')", 'did you mean "PARQUET_FILE"?'),
    (
        f"SELECT ROW_NUMBER() OVER (ORDER BY a) AS rn FROM {ROWS} WHERE rn = 1",
        "filter by it with QUALIFY",
    ),
    (f"SELECT COUNT(*) AS n FROM {ROWS} WHERE n > 1", "filter by it with HAVING"),
    (f"SELECT a + 1 AS b FROM {ROWS} WHERE b > 1", 'WHERE can\'t see "b" of the select list'),
    (f"SELECT a + 1 AS b FROM {ROWS} WHERE c > 1", "the columns are: a"),
    (f"SELECT * FROM {ROWS}, (SELECT t.a) AS x", "write LATERAL"),
    (f"SELECT * FROM {ROWS} CROSS JOIN (SELECT a) AS x", "write LATERAL"),
    ("SHOW TABLES", "use SHOW MAPPINGS"),
    ("COPY t TO 'x.csv'", "CREATE MAPPING f (…) TYPE File"),
    ("TRUNCATE TABLE t", "write DELETE FROM t, without WHERE"),
    ("CREATE TABLE t AS SELECT 1", "then INSERT INTO name SELECT"),
    ("CREATE TABLE t (a INT)", "use CREATE MAPPING name (column type, …) TYPE DuckDB"),
    ("SELECT 1 INTO x", "use INSERT INTO … SELECT …"),
    (
        "CREATE MAPPING e (a INT) EXTERNAL NAME x TYPE DuckDB",
        "EXTERNAL NAME precedes the columns",
    ),
    ("SELECT 1 WHERE UNNEST(ARRAY[1]) > 0", "write it in FROM"),
]


@pytest.mark.parametrize(("sql", "remedy"), REMEDIES, ids=[sql for sql, _ in REMEDIES])
def test_the_hint_names_the_remedy(sql: str, remedy: str) -> None:
    with (
        runnel.connect() as connection,
        pytest.raises((runnel.ProgrammingError, runnel.NotSupportedError)) as caught,
    ):
        connection.execute(sql)
    assert remedy in (caught.value.hint or "")


def test_an_absent_database_file_of_a_data_connection_has_no_columns_to_declare(
    tmp_path: Path,
) -> None:
    sql = f"CREATE DATA CONNECTION dc TYPE DuckDB OPTIONS ('path' = '{tmp_path}/absent.duckdb')"
    with runnel.connect() as connection, pytest.raises(runnel.OperationalError) as caught:
        connection.execute(sql)
    assert caught.value.hint == "to create it, add 'create' = 'true' to the OPTIONS"


def test_an_unknown_option_of_explain_is_pointed_at_and_the_known_ones_listed() -> None:
    with (
        runnel.connect() as connection,
        pytest.raises(runnel.ProgrammingError, match='syntax error at "FOO"') as caught,
    ):
        connection.execute("EXPLAIN (FOO) SELECT 1")
    assert caught.value.position is not None and caught.value.position.column == 10
    assert caught.value.detail == "expected one of LOGICAL, PHYSICAL, DAG, STATE, ANALYZE or FORMAT"


@pytest.mark.parametrize(
    "sql",
    ["WITH q AS (SELECT 1) SET time_zone", "SELECT * FROM (WITH q (a) AS (SELECT 1) SHOW x) AS s"],
)
def test_what_follows_with_must_be_a_query_and_nothing_is_logged(
    sql: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.DEBUG, "sqlglot"),
        runnel.connect() as connection,
        pytest.raises(runnel.ProgrammingError, match='syntax error at "S') as caught,
    ):
        connection.execute(sql)
    assert caught.value.detail == "expected a query after WITH"
    assert not [record for record in caplog.records if record.name.startswith("sqlglot")]


def test_reset_all_gives_every_setting_its_default() -> None:
    with runnel.connect() as connection:
        connection.execute("SET query_parallelism = 3")
        connection.execute("SET time_zone = 'Europe/Vienna'")
        connection.execute("RESET ALL")
        shown = {row[0]: row[1] for row in connection.execute("SHOW ALL").fetchall()}
    assert shown == {item.name: str(item.default) for item in SETTINGS}
    with (
        runnel.connect() as connection,
        pytest.raises(runnel.ProgrammingError, match='"ALL" not found'),
    ):
        connection.execute("SET ALL = 3")
