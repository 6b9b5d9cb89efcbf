"""What a query on tables names twice is worked out once: which plans share, that they give what
DuckDB gives, and that no reader of shared rows stops another one: whole plans under dice, with
queues of one place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from runnel import Connection
from runnel.processors import spool as hold
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.testing.rows import rows_of

JOINED = "WITH c AS (SELECT a.k, a.v, b.v AS w FROM t a JOIN u b ON a.k = b.k) "
COUNTED = "WITH c AS (SELECT k, COUNT(*) AS n, MAX(v) AS m FROM t GROUP BY k) "

LARGEST = "(SELECT k, MAX(v) AS v, MAX(w) AS w FROM c GROUP BY k)"

SHARED = {
    "probe and aggregated build": COUNTED
    + (
        "SELECT c.* FROM c JOIN (SELECT k, MAX(n) AS n, MAX(m) AS m FROM c "
        "GROUP BY k) d USING (k, n, m)"
    ),
    "union": JOINED + f"SELECT * FROM c UNION ALL SELECT * FROM {LARGEST}",
    "exists": JOINED
    + "SELECT * FROM c WHERE EXISTS (SELECT 1 FROM c AS d WHERE d.w = c.v AND d.k + d.v > 0)",
    "scalar": JOINED + "SELECT *, (SELECT SUM(k + v + w) FROM c) FROM c",
    "each in the other": JOINED
    + (
        ", d AS (SELECT v, COUNT(*) AS n FROM t GROUP BY v) SELECT c.*, d.* FROM c "
        "JOIN d ON c.v = d.v"
    )
    + " UNION ALL SELECT y.*, x.* FROM d x JOIN c y ON x.v = y.w",
    "crossed": (
        "WITH c AS (SELECT DISTINCT k, v FROM t), d AS (SELECT DISTINCT v, k FROM u)"
        " SELECT c.* FROM c JOIN (SELECT MAX(k) AS k, MAX(v) AS v FROM d) m ON c.k < m.k + m.v"
        " UNION ALL SELECT d.* FROM d JOIN (SELECT MIN(k) AS k, MIN(v) AS v "
        "FROM c) m ON d.k >= m.k + m.v"
    ),
    "intersect": COUNTED + "SELECT * FROM c INTERSECT SELECT k, m, n FROM c",
    "except": COUNTED + "SELECT * FROM c EXCEPT ALL SELECT n, k, m FROM c",
    "shared below what is shared": JOINED
    + (
        f", d AS {LARGEST} SELECT c.*, x.*, y.* FROM c JOIN d x ON c.k = x.k "
        "JOIN d y ON c.k = y.k + 1"
    ),
    "sub-queries that are alike": (
        "SELECT a.k, a.n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) a"
        " JOIN (SELECT MAX(n) AS n, MAX(k) AS k FROM (SELECT k, COUNT(*) AS n FROM t "
        "GROUP BY k)) b ON a.n = b.n AND a.k <= b.k"
    ),
    "outer": COUNTED + "SELECT * FROM c x FULL JOIN c y ON x.n = y.m",
    "over": JOINED + "SELECT k, v, SUM(w) OVER (PARTITION BY k) FROM c UNION ALL SELECT * FROM c",
    "limited": COUNTED
    + (
        "SELECT COUNT(*), SUM(n + m) FROM c UNION ALL (SELECT 0, SUM(n * 0 + m * 0) "
        "FROM (SELECT * FROM c LIMIT 2))"
    ),
}

PERHAPS = {
    # The order of the four joins is chosen as a whole.
    "itself": JOINED + "SELECT * FROM c x JOIN c y ON x.k = y.k AND x.v < y.w",
    "three times": JOINED
    + f"SELECT * FROM c x JOIN c y ON x.v = y.w JOIN {LARGEST} z ON x.k = z.k",
    "other columns": JOINED
    + "SELECT c.v FROM c JOIN (SELECT MAX(w) AS w FROM c GROUP BY k) m USING (w)",
    "other conditions": JOINED
    + "SELECT x.v, y.w FROM c x JOIN c y ON x.k = y.k WHERE x.v IS NOT NULL AND y.w IS NULL",
    "not in": COUNTED + "SELECT * FROM c WHERE n NOT IN (SELECT m FROM c WHERE m IS NOT NULL)",
    "recursion": COUNTED
    + "SELECT * FROM c UNION ALL (WITH RECURSIVE r AS (SELECT k, n, m FROM c UNION ALL"
    " SELECT k + 1, n, m FROM r WHERE k < 6) SELECT * FROM r)",
}

NOT_SHARED = {
    "plain tables": "SELECT x.v FROM t x JOIN t y ON x.k = y.v",
    "one of each": (
        "SELECT a.n FROM (SELECT COUNT(*) AS n FROM t) a "
        "JOIN (SELECT MAX(v) AS n FROM t) b ON a.n = b.n"
    ),
    "volatile": "WITH c AS (SELECT k + RAND() AS n, COUNT(*) AS m FROM t GROUP BY k + RAND())"
    " SELECT x.n, y.n FROM c x JOIN c y ON x.n = y.n AND x.m = y.m",
}


def _tables() -> dict[str, pa.Table]:
    """Tables of many small batches."""
    rows = {
        "t": [(i % 5 if i % 7 else None, i % 4 if i % 5 else None) for i in range(24)],
        "u": [(i % 6, (i * 5) % 7 if i % 3 else None) for i in range(18)],
    }
    found = {}
    for name, values in rows.items():
        columns = [pa.array(column, pa.int64()) for column in zip(*values, strict=True)]
        whole = pa.table(columns, names=["k", "v"])
        found[name] = pa.Table.from_batches(whole.to_batches(max_chunksize=2))
    return found


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        for name, table in _tables().items():
            connection.register(name, table)
        connection.execute("SET pushdown = off")
        yield connection


def _expected(sql: str, tables: dict[str, pa.Table]) -> list[Any]:
    with duckdb.connect() as oracle:
        for name, table in tables.items():
            oracle.register(name, table)
        return sorted(oracle.execute(sql).fetchall(), key=repr)


def _plan(con: Connection, sql: str) -> str:
    return "\n".join(row[0] for row in con.execute("EXPLAIN " + sql).fetchall())


@pytest.mark.parametrize("name", [*SHARED, *PERHAPS])
def test_results_are_those_of_duckdb(con: Connection, name: str) -> None:
    sql = (SHARED | PERHAPS)[name]
    assert name in PERHAPS or "Shared 1, as before" in _plan(con, sql)
    expected = _expected(sql, _tables())
    for parallelism in (1, 2, 3):
        con.execute(f"SET query_parallelism = {parallelism}")
        assert sorted(con.execute(sql).fetchall(), key=repr) == expected


@pytest.mark.parametrize("sql", (SHARED | PERHAPS).values(), ids=SHARED | PERHAPS)
def test_no_reader_stops_another_one(con: Connection, sql: str) -> None:
    expected = _expected(sql, _tables())
    for parallelism in (1, 2):
        con.execute(f"SET query_parallelism = {parallelism}")
        plan: Any = con._session.prepare(sql, ())
        for seed in range(6):
            options = SimulationOptions(parallelism=parallelism, delay=0.3 if seed % 2 else 0.9)
            simulation = Simulation(plan.dag(parallelism), seed, options)
            simulation.run()
            assert simulation.error is None, simulation.error
            assert sorted(rows_of(simulation.batches), key=repr) == expected


@pytest.mark.parametrize("sql", NOT_SHARED.values(), ids=NOT_SHARED)
def test_what_is_not_shared(con: Connection, sql: str) -> None:
    assert "Shared" not in _plan(con, sql)
    con.execute(sql).fetchall()


def test_a_file_is_parsed_once(con: Connection, tmp_path: Path) -> None:
    lines = [f'{{"a":{i},"b":"x{i % 3}","c":{i % 5}}}\n' for i in range(1000)]
    (tmp_path / "rows.jsonl").write_text("".join(lines), "utf-8")
    options = f"OPTIONS ('path' = '{tmp_path}/rows.jsonl', 'format' = 'json')"
    con.execute(f"CREATE MAPPING f (a BIGINT, b VARCHAR, c BIGINT) TYPE File {options}")
    sql = "SELECT f.a, f.b FROM f JOIN (SELECT c, MAX(a) AS a FROM f GROUP BY c) m ON f.a = m.a"
    plan = _plan(con, sql)
    assert plan[plan.index("DAG") :].count("\nscan f") == 1
    assert sorted(con.execute(sql).fetchall()) == [(995 + i, f"x{(995 + i) % 3}") for i in range(5)]


def test_rows_that_are_held_go_to_a_file_where_they_are_many(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "MOST_BYTES", 100)
    for sql in SHARED.values():
        assert sorted(con.execute(sql).fetchall(), key=repr) == _expected(sql, _tables())


def test_a_join_of_much_that_is_shared(con: Connection) -> None:
    count = 400_000
    numbers = pa.table(
        {"k": pa.array(range(count)), "v": pa.array([i % 1000 for i in range(count)])}
    )
    con.register("big", numbers)
    sql = (
        "WITH c AS (SELECT k, MAX(v) AS v FROM big GROUP BY k)"
        " SELECT COUNT(*), SUM(x.k + x.v) FROM c x "
        "JOIN (SELECT v, MAX(k) AS k FROM c GROUP BY v) y ON x.k = y.k"
    )
    assert "Hold" in _plan(con, sql)
    assert con.execute(sql).fetchall() == [
        (1000, sum(range(count - 1000, count)) + sum(range(1000)))
    ]
