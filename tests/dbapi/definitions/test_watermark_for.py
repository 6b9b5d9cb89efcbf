"""WATERMARK FOR of a mapping: it lasts, it is shown, and scans of the mapping go by it."""

from __future__ import annotations

from pathlib import Path

import pytest

import runnel
from runnel import Connection
from runnel.catalog import EventTime, Mapping
from runnel.errors import ProgrammingError

COLUMNS = "(ts BIGINT, v INT, WATERMARK FOR ts AS ts - 5)"


def event_time(connection: Connection, name: str) -> EventTime | None:
    found = connection._database.catalog.snapshot.get(name)
    assert isinstance(found, Mapping)
    return found.table.event_time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("ts,v\n1,10\n7,20\n")
    return tmp_path


def create(connection: Connection, folder: Path, columns: str = COLUMNS, more: str = "") -> None:
    options = f"'path' = '{folder}/in', 'format' = 'csv'{more}"
    connection.execute(f"CREATE OR REPLACE MAPPING m {columns} TYPE File OPTIONS ({options})")


def test_it_is_there_when_the_directory_is_opened_again(folder: Path) -> None:
    with runnel.connect(folder / "db") as connection:
        create(connection, folder, more=", 'idleTimeoutMillis' = '250'")
        assert event_time(connection, "m") == EventTime(0, 5, 250)
        (text,) = connection.execute("SELECT GET_DDL('relation', 'm')").fetchone() or ("",)
    with runnel.connect(folder / "db") as connection:
        assert event_time(connection, "m") == EventTime(0, 5, 250)
        assert connection.execute("SELECT GET_DDL('relation', 'm')").fetchone() == (text,)
        connection.execute("DROP MAPPING m")
        connection.execute(text)
        assert event_time(connection, "m") == EventTime(0, 5, 250)
        assert connection.execute("SELECT ts, v FROM m ORDER BY ts").fetchall() == [
            (1, 10),
            (7, 20),
        ]


def test_it_is_kept_while_its_files_are_gone(folder: Path) -> None:
    with runnel.connect(folder / "db") as connection:
        create(connection, folder)
    (folder / "in" / "a.csv").rename(folder / "a.csv")
    (folder / "in").rmdir()
    for _ in range(2):
        with runnel.connect(folder / "db") as connection:
            (text,) = connection.execute("SELECT GET_DDL('relation', 'm')").fetchone() or ("",)
            assert 'WATERMARK FOR "ts" AS "ts" - 5' in text
            connection.execute("CREATE OR REPLACE VIEW v AS SELECT 1")


def test_columns_that_the_connector_finds_have_it_too(folder: Path) -> None:
    with runnel.connect() as connection:
        create(connection, folder, "(WATERMARK FOR V AS V)")
        assert event_time(connection, "m") == EventTime(1, 0)
        assert connection.execute("SELECT * FROM m ORDER BY ts").fetchall() == [(1, 10), (7, 20)]


def test_a_mapping_over_a_data_connection_keeps_it_when_that_is_replaced(tmp_path: Path) -> None:
    with runnel.connect() as connection:
        define = (
            "CREATE OR REPLACE DATA CONNECTION d TYPE DuckDB "
            f"OPTIONS ('path' = '{tmp_path}/f.duckdb', 'create' = 'true')"
        )
        connection.execute(define)
        connection.execute(
            f"CREATE MAPPING m {COLUMNS} DATA CONNECTION d OPTIONS ('idleTimeoutMillis' = '0')"
        )
        assert event_time(connection, "m") == EventTime(0, 5, 0)
        connection.execute(define)
        assert event_time(connection, "m") == EventTime(0, 5, 0)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("IMap", "'keyFormat' = 'bigint', 'valueFormat' = 'json-flat'"),
        ("DuckDB", ""),
        ("Nexmark", "'table' = 'bid'"),
    ],
)
def test_every_connector_takes_it(kind: str, options: str) -> None:
    columns = {"IMap": "__key BIGINT, ts TIMESTAMP,", "DuckDB": "ts TIMESTAMP,", "Nexmark": ""}[
        kind
    ]
    name = "ts" if columns else "date_time"
    comma = ", " if options else ""
    with runnel.connect() as connection:
        connection.execute(
            f"CREATE MAPPING m ({columns} WATERMARK FOR {name} AS {name} - INTERVAL '2' SECOND) "
            f"TYPE {kind} "
            f"OPTIONS ({options}{comma}'idleTimeoutMillis' = '9')"
        )
        found = event_time(connection, "m")
        assert found is not None
        assert (found.lag, found.idle_timeout) == (2_000_000, 9)


def test_a_watermark_that_does_not_fit_leaves_the_mapping_as_it_was(folder: Path) -> None:
    with runnel.connect() as connection:
        create(connection, folder)
        with pytest.raises(ProgrammingError, match="do not match"):
            create(connection, folder, "(ts BIGINT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)")
        assert event_time(connection, "m") == EventTime(0, 5)
