"""Joins of up to 64 tables: the rows that SQLite and DuckDB return, and work in proportion."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from tests.effort import crossed
from tests.planner.rules.join_order.generated import SHAPES, Case, case, steps

Rows = list[tuple[Any, ...]]


@pytest.fixture
def own() -> Iterator[runnel.Connection]:
    """A connection that runs everything on its own operators."""
    with runnel.connect() as connection:
        connection.execute("SET pushdown = off")
        yield connection


def _arrow(made: Case) -> dict[str, pa.Table]:
    return {
        name: pa.table({key: pa.array(values, pa.int64()) for key, values in columns.items()})
        for name, columns in made.tables.items()
    }


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: [(item is None, item or 0) for item in row])


def _on_sqlite(made: Case) -> Rows:
    with sqlite3.connect(":memory:") as connection:
        for name, columns in made.tables.items():
            names = ", ".join(
                f"{key} INTEGER{' PRIMARY KEY' * (name[0] == 't' and key == 'id')}"
                for key in columns
            )
            connection.execute(f"CREATE TABLE {name} ({names})")
            places = ", ".join("?" * len(columns))
            rows = list(zip(*columns.values(), strict=True))
            connection.executemany(f"INSERT INTO {name} VALUES ({places})", rows)
        return _sorted(connection.execute(made.ordered).fetchall())


def _on_duckdb(made: Case) -> Rows:
    with duckdb.connect() as connection:
        for name, table in _arrow(made).items():
            connection.register(name, table)
        return _sorted(connection.execute(made.sql).fetchall())


def _rows(connection: runnel.Connection, made: Case) -> Rows:
    return _sorted(connection.execute(made.sql, timeout=60).fetchall())


def _registered(connection: runnel.Connection, made: Case) -> None:
    for name, table in _arrow(made).items():
        connection.register(name, table)


@pytest.mark.parametrize(("shape", "number"), crossed(SHAPES, [64, 8, 13, 12, 4]))
def test_joins_on_runnels_operators(own: runnel.Connection, shape: str, number: int) -> None:
    for seed in range(2 if number < 12 else 1):
        made = case(shape, number, seed)
        _registered(own, made)
        rows = _rows(own, made)
        assert rows == _on_sqlite(made)
        assert number > 8 or rows == _on_duckdb(made)


@pytest.mark.parametrize(("shape", "number"), crossed(SHAPES, [30, 5]))
def test_outer_joins_among_them(own: runnel.Connection, shape: str, number: int) -> None:
    made = case(shape, number, 7, outer=True)
    _registered(own, made)
    assert _rows(own, made) == _on_sqlite(made)


@pytest.mark.parametrize("number", [6, 12, 40])
@pytest.mark.parametrize("shape", ["chain", "tree", "clique"])
def test_joins_of_a_few_tables_with_themselves(
    own: runnel.Connection, shape: str, number: int
) -> None:
    made = case(shape, number, 3, same=True)
    _registered(own, made)
    assert _rows(own, made) == _on_sqlite(made)


@pytest.mark.parametrize("number", [5, 20, 64])
@pytest.mark.parametrize("seed", range(2))
def test_inner_and_outer_joins_in_turn(own: runnel.Connection, number: int, seed: int) -> None:
    made = steps(number, seed)
    _registered(own, made)
    assert _rows(own, made) == _on_sqlite(made)


@pytest.mark.parametrize(
    ("shape", "number"), crossed(["chain", "star", "tree", "disconnected"], [64, 8])
)
def test_joins_of_tables_of_duckdb(shape: str, number: int) -> None:
    made = case(shape, number, 1)
    with runnel.connect() as connection:
        for name, table in _arrow(made).items():
            columns = ", ".join(f"{key} BIGINT" for key in made.tables[name])
            connection.execute(f"CREATE MAPPING {name} ({columns}) TYPE DuckDB")
            connection.register("rows", table)
            connection.execute(f"INSERT INTO {name} SELECT * FROM rows")
            connection.unregister("rows")
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {made.sql}").fetchall())
        assert "DuckDB" in plan.split("Physical plan")[1]
        assert _rows(connection, made) == _on_sqlite(made)


@pytest.mark.parametrize("number", [10, 40])
def test_joins_of_maps(own: runnel.Connection, number: int) -> None:
    made = case("tree", number, 5)
    for name, table in _arrow(made).items():
        columns = ", ".join(f"{key} BIGINT" for key in made.tables[name] if key != "id")
        own.execute(f"CREATE MAPPING m{name} (__key BIGINT, {columns}) TYPE IMap")
        own.register("rows", table)
        own.execute(f"SINK INTO m{name} SELECT * FROM rows")
        own.execute(f"CREATE VIEW {name} AS SELECT __key AS id, * FROM m{name}")
        own.unregister("rows")
    assert _rows(own, made) == _on_sqlite(made)
