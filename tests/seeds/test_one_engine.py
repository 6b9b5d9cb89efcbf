"""One engine for maps, files and streams, as the document on the merge of two engines asks for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import runnel
from runnel import Connection
from tests.serving.test_command import served

ROWS = [(1, "a"), (2, "b"), (3, "c")]


@pytest.fixture
def con(tmp_path: Path) -> Iterator[Connection]:
    """The same rows in a map, another map, a CSV file, a table of DuckDB and an Arrow table."""
    with runnel.connect() as connection:
        for name in ("map", "other_map"):
            connection.execute(
                f"CREATE MAPPING {name} (id BIGINT EXTERNAL NAME __key, name VARCHAR) TYPE IMap "
                "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
            )
        connection.execute(
            "CREATE MAPPING file (id BIGINT, name VARCHAR) TYPE File "
            f"OPTIONS ('format'='csv', 'path'='{tmp_path / 'rows'}')"
        )
        connection.execute("CREATE MAPPING own (id BIGINT, name VARCHAR) TYPE DuckDB")
        for name in ("map", "other_map", "file", "own"):
            connection.cursor().executemany(f"INSERT INTO {name} VALUES (?, ?)", ROWS)
        connection.register("arrow", pa.Table.from_pylist([{"id": i, "name": n} for i, n in ROWS]))
        yield connection


TABLES = ("map", "other_map", "file", "own", "arrow")


@pytest.mark.parametrize(("left", "right"), [*itertools.product(TABLES, TABLES)])
def test_any_two_tables_are_joined(con: Connection, left: str, right: str) -> None:
    """A map too, on either side, and with a map."""
    found = con.execute(
        f"SELECT a.id, b.name FROM {left} AS a JOIN {right} AS b ON a.id = b.id - 1 ORDER BY 1"
    )
    assert found.fetchall() == [(1, "b"), (2, "c")]


def test_features_of_either_engine_in_one_query(con: Connection) -> None:
    """An index, LIMIT, OFFSET, ORDER BY and a parameter with GROUP BY, a generator and a join."""
    con.execute("CREATE INDEX by_name ON map (name) TYPE SORTED")
    text = (
        "SELECT m.name, COUNT(*), MAX(g.v) FROM map AS m JOIN TABLE(GENERATE_SERIES(1, 9)) AS g "
        "ON g.v % 3 = m.id % 3 WHERE m.name >= ? GROUP BY m.name ORDER BY m.name DESC "
        "LIMIT 1 OFFSET ?"
    )
    assert con.execute(text, ("b", 0)).fetchall() == [("c", 3, 9)]
    assert con.execute(text, ("a", 2)).fetchall() == [("a", 3, 7)]


def test_an_empty_map_has_columns(connection: Connection) -> None:
    connection.execute(
        "CREATE MAPPING empty (__key BIGINT, name VARCHAR) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    cursor = connection.execute("SELECT * FROM empty")
    assert cursor.fetchall() == [] and cursor.description is not None
    assert [column.name for column in cursor.description] == ["__key", "name"]
    assert connection.execute("SELECT COUNT(*), MAX(name) FROM empty").fetchall() == [(0, None)]


@pytest.mark.parametrize("pushdown", ["on", "off"])
def test_coercion_of_operands(connection: Connection, pushdown: str) -> None:
    connection.execute(f"SET pushdown = {pushdown}")
    cursor = connection.execute("SELECT CAST(1 AS TINYINT) + CAST(2.5 AS REAL)")
    assert cursor.fetchall() == [(3.5,)] and cursor.description is not None
    assert str(cursor.description[0].type_code) == "REAL"
    with pytest.raises(
        runnel.ProgrammingError, match=re.escape("cannot apply '+' operator to [INTEGER, VARCHAR]")
    ) as caught:
        connection.execute("SELECT CAST(1 AS INT) + CAST('1' AS VARCHAR)")
    assert caught.value.hint == "add an explicit CAST"


def test_a_light_job_fails_with_its_coordinator(tmp_path: Path) -> None:
    """The server coordinates the statements of its clients. Killed, it leaves no job."""
    with served(tmp_path) as (process, url):
        with runnel.connect(url, token=(tmp_path / "token").read_text()) as remote:
            endless = remote.execute("SELECT * FROM TABLE(GENERATE_STREAM(1000))")
            assert endless.fetchone() is not None
            process.kill()
            with pytest.raises(runnel.OperationalError):
                while endless.fetchone() is not None:
                    pass
        process.wait(20)
    with runnel.connect(tmp_path) as connection:
        assert connection.execute("SHOW JOBS FULL").fetchall() == []
