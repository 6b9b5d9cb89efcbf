"""The order of inner joins: no avoidable cross product, the small sides first, the columns as they
were written."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import runnel

SIZES = {"fact": 5000, "big": 800, "middle": 60, "tiny": 5}


@pytest.fixture
def tables(connection: runnel.Connection) -> Iterator[runnel.Connection]:
    for name, size in SIZES.items():
        numbers = pa.array(range(size), pa.int64())
        columns = {"id": numbers} | {
            other: pa.array([i % SIZES[other] for i in range(size)]) for other in SIZES
        }
        connection.register(name, pa.table(columns))
    yield connection


def plan(connection: runnel.Connection, sql: str) -> list[str]:
    """The joins and scans of the logical plan, as they are nested."""
    lines = [row[0] for row in connection.execute(f"EXPLAIN {sql}").fetchall()]
    logical = lines[lines.index("Logical plan") + 1 : lines.index("")]
    return [line for line in logical if "join" in line or "Scan" in line]


def test_a_comma_list_in_a_bad_order_has_no_cross_product(tables: runnel.Connection) -> None:
    sql = (
        "SELECT COUNT(*) FROM tiny, big, middle, fact "
        "WHERE fact.big = big.id AND fact.middle = middle.id "
        "AND big.tiny = tiny.id AND middle.tiny = tiny.id"
    )
    assert not any("Cross" in line for line in plan(tables, sql))
    expected = sum(1 for i in range(5000) if (i % 800) % 5 == (i % 60) % 5)
    assert tables.execute(sql).fetchall() == [(expected,)]


def test_the_columns_keep_their_order(tables: runnel.Connection) -> None:
    sql = (
        "SELECT * FROM fact f, tiny t, middle m WHERE f.middle = m.id AND m.tiny = t.id AND f.id = "
        "1234"
    )
    row = tables.execute(sql).fetchone()
    assert row == (1234, 1234, 434, 34, 4, 4, 4, 4, 4, 4, 34, 34, 34, 34, 4)


def test_a_filtered_table_comes_first(tables: runnel.Connection) -> None:
    sql = (
        "SELECT COUNT(*) FROM fact f JOIN big b ON f.big = b.id JOIN middle m ON f.middle = m.id "
        "WHERE m.id = 7"
    )
    joins = [line for line in plan(tables, sql) if "join" in line]
    assert "middle = id" in joins[-1] or "id = middle" in joins[-1]
    assert tables.execute(sql).fetchall() == [(sum(1 for i in range(5000) if i % 60 == 7),)]


def test_what_can_fail_is_checked_last(tables: runnel.Connection) -> None:
    """10 / (b.id - 3) fails for a row of `big` that joins with nothing."""
    tables.register(
        "some",
        pa.table({"big": pa.array([4, 5, 6], pa.int64()), "tiny": pa.array([4, 0, 1], pa.int64())}),
    )
    sql = (
        "SELECT COUNT(*) FROM fact f, big b, some s, tiny t "
        "WHERE 10 / (b.id - 3) + f.id > -100 AND f.big = b.id "
        "AND b.id = s.big AND s.tiny = t.id"
    )
    assert tables.execute(sql).fetchone() == (21,)


def test_an_order_is_the_same_each_time(tables: runnel.Connection) -> None:
    sql = (
        "SELECT 1 FROM fact a, fact b, fact c, fact d "
        "WHERE a.id = b.id AND b.id = c.id AND c.id = d.id"
    )
    assert plan(tables, sql) == plan(tables, f"{sql} ")


def test_a_stream_stays_on_the_probe_side(tables: runnel.Connection) -> None:
    sql = (
        "SELECT s.v, t.id, m.id FROM TABLE(GENERATE_STREAM(1000)) s JOIN tiny t ON s.v = t.id "
        "JOIN middle m ON m.id = t.id LIMIT 5"
    )
    assert sorted(tables.execute(sql).fetchall()) == [(i, i, i) for i in range(5)]


def test_two_keys_between_two_tables_are_not_taken_for_independent(
    tables: runnel.Connection,
) -> None:
    sql = (
        "SELECT COUNT(*) FROM fact a, fact b, tiny t "
        "WHERE a.big = b.big AND a.middle = b.middle AND a.tiny = t.id"
    )
    joins = [line for line in plan(tables, sql) if "join" in line]
    assert "tiny" in joins[-1]
