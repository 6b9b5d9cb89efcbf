"""A stream that a query reads in several places is read once, and what is the same above it is
worked out once."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.snapshots.store import MemorySnapshotStore
from runnel.testing.rows import rows_of
from tests.effort import crossed, some
from tests.streams.random_queries.generated import Bench, agree
from tests.streams.random_queries.query_generator import QueryGenerator
from tests.streams.random_queries.random_feeds import (
    TIME_TYPES,
    FeedOptions,
    random_feed,
    schema_of,
)
from tests.streams.random_queries.simulated import late_rows
from tests.streams.scripted_table import ScriptedTable

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
ROWS = pa.table(
    [
        [n // 2 + (n * 7) % 5 for n in range(400)],
        ["abc"[n % 3] for n in range(400)],
        [n * 31 % 17 for n in range(400)],
    ],
    schema=SCHEMA,
)
WINDOWS = "TABLE({kind}(TABLE s, DESCRIPTOR(t), 20{more}))"
COUNTS = (
    f"SELECT window_end AS e, k, COUNT(*) AS n FROM {WINDOWS.format(kind='TUMBLE', more='')} "
    "GROUP BY window_end, k"
)
HOPS = (
    f"SELECT window_end AS e, k, SUM(v) AS n FROM {WINDOWS.format(kind='HOP', more=', 10')} "
    "GROUP BY window_end, k"
)

SHARED = {
    # a query, and how often its plan has what is shared: 0 for the scan alone
    (
        "SELECT x.v AS one, y.v AS other FROM s x "
        "JOIN s y ON x.k = y.k AND y.t BETWEEN x.t AND x.t + 3 AND y.v > x.v"
    ): 0,
    (
        "SELECT x.v, y.v FROM s x LEFT JOIN s y ON x.k = y.k AND y.t BETWEEN x.t - 2 AND x.t + 3 "
        "AND y.v > 12 WHERE x.v < 5"
    ): 0,
    (
        "SELECT t, v FROM s WHERE NOT EXISTS (SELECT 1 FROM s o "
        "WHERE o.t BETWEEN s.t - 1 AND s.t + 1 AND o.v > s.v)"
    ): 0,
    f"{COUNTS} UNION ALL {COUNTS}": 1,
    (
        f"SELECT e, n FROM ({COUNTS}) x UNION ALL SELECT t, v FROM s WHERE k = 'a' UNION ALL "
        f"SELECT e, n FROM ({HOPS}) y"
    ): 0,
    f"WITH c AS ({HOPS}), m AS (SELECT e, MAX(n) AS n FROM c GROUP BY e) SELECT c.* FROM c JOIN m "
    "ON c.e = m.e AND c.n = m.n": 1,
    (
        f"WITH c AS ({COUNTS}) SELECT x.e, x.k, y.k, x.n + y.n FROM c x JOIN c y ON x.e = y.e "
        "WHERE x.k < y.k"
    ): 1,
    (
        f"WITH c AS ({COUNTS}), d AS (SELECT e, SUM(n) AS n FROM c GROUP BY e) "
        "SELECT c.k, d.n, f.n FROM c JOIN d ON c.e = d.e "
        "JOIN d f ON f.e = c.e"
    ): 2,
}


def stream(connection: runnel.Connection) -> runnel.StreamWriter:
    return connection.register_stream("s", SCHEMA, time_column="t", max_disorder=5)


def plan_of(connection: runnel.Connection, sql: str) -> list[str]:
    return [line for (line,) in connection.execute(f"EXPLAIN (PHYSICAL) {sql}").fetchall()]


@pytest.mark.parametrize(("sql", "parallelism"), crossed(SHARED, [1, 2]))
def test_a_pushed_stream_is_read_once(sql: str, parallelism: int) -> None:
    with runnel.connect(query_parallelism=parallelism) as connection:
        connection.register("s", ROWS)
        expected = connection.execute(sql).fetch_arrow_table()
        connection.unregister("s")
        writer = stream(connection)
        lines = plan_of(connection, sql)
        assert len([line for line in lines if "Scan s" in line]) == 1
        assert len(
            [line for line in lines if re.search(r"Aggregate .*(n|COUNT|SUM)", line)]
        ) <= sql.count("GROUP BY")
        with connection.execute(sql) as cursor:
            assert writer.reader_count == 1
            for batch in ROWS.to_batches(max_chunksize=7):
                writer.write(batch)
            writer.close()
            found = cursor.fetch_arrow_table()
        assert found.schema.names == expected.schema.names
        assert sorted(rows_of(found), key=repr) == sorted(rows_of(expected), key=repr)
        assert found.num_rows


@pytest.mark.parametrize("sql", [sql for sql, number in SHARED.items() if number])
def test_what_is_the_same_runs_once(sql: str) -> None:
    with runnel.connect() as connection:
        stream(connection)
        lines = plan_of(connection, sql)
    aggregates = [line for line in lines if "COUNT(*)" in line or "SUM(v)" in line]
    assert len(aggregates) == 1, lines
    assert [line.strip() for line in lines if "as before" in line].count("Shared 1, as before") >= 1
    assert sum("Shared" in line and "as before" not in line for line in lines) == SHARED[sql]


@pytest.mark.parametrize(
    "sql",
    [
        # A side of a join that is read to its end first: one scan would be stopped by the other
        # side's queue.
        "SELECT s.v FROM s JOIN (SELECT v FROM s LIMIT 3) f ON s.v = f.v",
        # Different event times of one stream.
        (
            "SELECT a.t FROM TABLE(IMPOSE_ORDER(TABLE s, DESCRIPTOR(t), 5)) a "
            "JOIN TABLE(IMPOSE_ORDER(TABLE s, DESCRIPTOR(t), 9)) "
            "b ON a.t = b.t"
        ),
    ],
)
def test_two_readers_where_one_would_not_do(sql: str) -> None:
    with runnel.connect() as connection:
        writer = stream(connection)
        assert not any("Shared" in line for line in plan_of(connection, sql))
        with connection.execute(sql):
            assert writer.reader_count == 2


def test_a_build_side_that_reads_the_stream_does_not_stop_it() -> None:
    """The probe side waits meanwhile, and misses nothing."""
    with runnel.connect() as connection:
        writer = stream(connection)
        with connection.execute(
            "SELECT s.t, f.n FROM s JOIN (SELECT t AS n FROM s LIMIT 300) f ON s.t = f.n"
        ) as cursor:
            for batch in ROWS.to_batches(max_chunksize=11):
                writer.write(batch)
            writer.close()
            first = ROWS.column("t").to_pylist()
            assert len(cursor.fetchall()) == sum(first[:300].count(time) for time in first)


def test_what_is_volatile_is_not_shared() -> None:
    part = (
        "SELECT window_end AS e, k, MAX(RAND()) AS r "
        "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 20)) GROUP BY window_end, k"
    )
    with runnel.connect() as connection:
        writer = stream(connection)
        sql = f"SELECT x.r, y.r FROM ({part}) x JOIN ({part}) y ON x.e = y.e AND x.k = y.k"
        with connection.execute(sql) as cursor:
            assert writer.reader_count == 1
            writer.write(ROWS)
            writer.close()
            found = cursor.fetchall()
        assert found and all(one != other for one, other in found)


def test_a_filter_of_all_stays_in_the_scan() -> None:
    with runnel.connect() as connection:
        stream(connection)
        both = "SELECT x.t, y.v FROM s x JOIN s y ON x.t = y.t WHERE x.v > 3 AND y.v > 3"
        assert any("Scan s" in line and "v > 3" in line for line in plan_of(connection, both))
        one = "SELECT x.t, y.v FROM s x JOIN s y ON x.t = y.t WHERE x.v > 3"
        assert any("Calc" in line and "v > 3" in line for line in plan_of(connection, one))


@pytest.mark.parametrize("sql", SHARED)
def test_barriers_of_snapshots_go_both_ways(sql: str) -> None:
    """With queues of one place, on two processors and on one."""
    with runnel.connect() as connection:
        connection.register("s", ROWS)
        expected = sorted(map(repr, connection.execute(sql).fetchall()))
        connection._register(
            "s", ScriptedTable("s", SCHEMA, [ROWS.to_batches(max_chunksize=16)], EventTime(0, 5, 0))
        )
        plan: Any = connection._session.prepare(sql, ())
        for dag in (plan.dag(2), plan.dag(2).narrowed()):
            options = SimulationOptions(parallelism=2, snapshot=0.05)
            simulation = Simulation(
                dag, len(sql), options, snapshots=SnapshotCoordinator(MemorySnapshotStore())
            )
            assert sorted(map(repr, rows_of(simulation.run()))) == expected
            assert simulation.error is None and simulation.snapshots_taken > 2


BLOCKS, PLANS, DICE = 8, 8, 2


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("block", some(range(BLOCKS), 2))
def test_any_order_of_events_gives_the_same_of_a_shared_stream(bench: Bench, block: int) -> None:
    """Both streams of random queries are one, with queues of one place: no standstill, and what
    tables give."""
    shared = sum(_ran_right(bench, seed) for seed in range(block * PLANS, (block + 1) * PLANS))
    assert shared >= 1


def _ran_right(bench: Bench, seed: int) -> bool:
    """Runs a random query both of whose streams are one; whether its scan was shared."""
    rng = random.Random(f"shared {seed}")
    kind, lag = rng.choice(list(TIME_TYPES)), rng.choice((0, 1, 5, 20))
    parallelism = rng.choice((1, 2, 3))
    generator = QueryGenerator(rng, kind, lag, True)
    sql = generator.query()
    while (
        "EMIT EVERY" in sql.ours
        or generator.needs_unique
        or not ({"a", "b"} <= set(re.findall(r"\b[ab]\b", sql.ours)))
    ):
        generator = QueryGenerator(rng, kind, lag, True)
        sql = generator.query()
    feed = random_feed(
        rng,
        FeedOptions(
            kind, rng.choice((8, 30, 60)), lag, rng.choice((1, 1, 2)), not generator.needs_times
        ),
    )
    for name in "ab":
        bench.tables.register(name, feed.table)
    bench.tables.execute(f"SET query_parallelism = {parallelism}")
    expected = rows_of(bench.tables.execute(sql.tables or sql.ours).fetch_arrow_table())
    table = ScriptedTable("a", schema_of(kind), feed.scripts, EventTime(0, feed.lag, 0))
    for name in "ab":
        bench.streams._register(name, table)
    try:
        plan: Any = bench.streams._session.prepare(sql.ours, ())
        dag = plan.dag(parallelism)
        for roll in range(DICE):
            options = replace(
                SimulationOptions(parallelism=parallelism), delay=0.3 if roll else 0.9
            )
            simulation = Simulation(dag, seed * 100 + roll, options)
            found = rows_of(simulation.run())
            assert simulation.error is None, simulation.error
            assert agree(found, expected, exact=True), f"seed {seed}, roll {roll}: {sql.ours}"
            assert late_rows(simulation) == 0
        return any(len(dag.outputs(name)) > 1 for name in dag.vertices if name.startswith("scan"))
    except runnel.NotSupportedError:
        return False
    finally:
        for name in "ab":
            bench.streams.unregister(name)
