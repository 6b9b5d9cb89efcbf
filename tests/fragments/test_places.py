"""Where an error says it is, whoever ran the part of the statement that failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import runnel

MANY = "(SELECT c FROM u WHERE u.a = t.a)"
CASES = [
    ("SELECT a FROM t WHERE 100 / (a - 3) > 1", "100 / (a - 3"),
    ("SELECT a, 1 / (a - 1) FROM t WHERE CAST(a AS DOUBLE) > 0", "1 / (a - 1"),
    ("SELECT a + CAST(s AS BIGINT) FROM t WHERE a <> 0", "s"),
    ("SELECT a * 9223372036854775807 FROM t", "a * 9223372036854775807"),
    (f"SELECT a, {MANY} FROM t", "SELECT c FROM u WHERE u.a = t.a"),
    ("UPDATE o SET v = 1 / (k - 1)", "1 / (k - 1"),
]


@pytest.fixture(params=["on", "off"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[runnel.Connection]:
    with runnel.connect(fragment_rows=0, pushdown=request.param) as made:
        made.register("t", pa.table({"a": [1, 2, 3], "s": ["1", "x", "3"]}))
        made.register("u", pa.table({"a": [1, 1, 3], "c": [1, 2, 3]}))
        options = f"'path'='{tmp_path / 'd.duckdb'}', 'create'='true'"
        made.execute(f"CREATE MAPPING o (k BIGINT, v BIGINT) TYPE DuckDB OPTIONS ({options})")
        made.execute("INSERT INTO o VALUES (1, 1), (2, 2)")
        yield made


@pytest.mark.parametrize(("sql", "place"), CASES)
def test_data_errors_point_to_what_failed(con: runnel.Connection, sql: str, place: str) -> None:
    with pytest.raises(runnel.DataError) as caught:
        con.execute(sql).fetchall()
    position = caught.value.position
    assert position is not None
    assert place in sql[position.offset : position.offset + position.length] or (
        sql[position.offset : position.offset + position.length] in place
    )
    assert sql.index(place) - 1 <= position.offset <= sql.index(place) + len(place)


@pytest.mark.parametrize(
    "sql",
    ["SET memory_limit = 'much'", "SET nope = 1", "RESET nope", "SET cooperative_threads = 2"],
)
def test_a_setting_that_is_refused_is_pointed_to(con: runnel.Connection, sql: str) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        con.execute(sql)
    assert caught.value.position is not None
    assert caught.value.position.offset == sql.index(" ") + 1
