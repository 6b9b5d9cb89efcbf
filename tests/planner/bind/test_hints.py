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
    ("SELECT * FROM file.csv", "to read a file, write FROM 'file.csv', in single quotes"),
    ("SELECT * FROM file.parquet AS f", "write FROM 'file.parquet'"),
    ("SELECT * FROM file.json", "write FROM 'file.json'"),
    ('INSERT INTO "file.feather" VALUES (1)', "write FROM 'file.feather'"),
    ("SELECT * FROM file", "create it with CREATE TABLE"),
    ("SELECT * FROM read_texts('file.csv')", 'did you mean "read_text"?'),
    ("SELECT * FROM arrow_scan('file.csv')", "use read_arrow(…)"),
    ("SELECT * FROM read_cvs('file.csv')", 'did you mean "read_csv"?'),
    ("SELECT * FROM readparquet('file.csv')", 'did you mean "read_parquet"?'),
    ("SELECT * FROM read_xyzzyx('file.csv')", "the readers are read_csv, read_json"),
    (
        f"SELECT ROW_NUMBER() OVER (ORDER BY a) AS rn FROM {ROWS} WHERE rn = 1",
        "filter by it with QUALIFY",
    ),
    (f"SELECT COUNT(*) AS n FROM {ROWS} WHERE n > 1", "filter by it with HAVING"),
    (f"SELECT a + 1 AS b FROM {ROWS} WHERE c > 1", "the columns are: a"),
    (f"SELECT * FROM {ROWS}, (SELECT t.a) AS x", "write LATERAL"),
    (f"SELECT * FROM {ROWS} CROSS JOIN (SELECT a) AS x", "write LATERAL"),
    ("COPY t FROM STDIN", "insert rows by executemany"),
    ("ALTER VIEW t AS SELECT 1", "ALTER supports TABLE and JOB"),
    ("CREATE TABLE t (a, b)", "or CREATE TABLE t (a, b) AS SELECT"),
    ("CREATE TABLE t (a SERIAL)", "use BIGINT"),
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
