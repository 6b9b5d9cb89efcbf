"""Snapshots that were stored once, which every later version must restore: the queries, the rows,
and how they were made.

`python -m tests.snapshots.stored` makes those that aren't there yet. Those that are there are never
made again: they are what users have on their disks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import runnel
from runnel.catalog import EventTime
from runnel.dag import DAG
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.snapshots.file_store import FileSnapshotStore
from runnel.snapshots.store import ENDED, MemorySnapshotStore, StateReader
from runnel.testing.rows import rows_of
from tests.snapshots.crashes import Outside, broken_off, dag_of, with_sink
from tests.streams.scripted_table import Entry, ScriptedTable

FOLDER = Path(__file__).parent / "stored"

SCHEMA = pa.schema(
    [("t", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("d", pa.decimal128(10, 2))]
)

QUERIES = {
    "tumble": (
        "SELECT window_end, k, COUNT(*) AS n, SUM(v) AS v, MAX(d) AS d, COUNT(DISTINCT v) AS c "
        "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 10)) GROUP BY window_end, k"
    ),
    "hop": (
        "SELECT window_end, k, SUM(d) AS d, AVG(v) AS v "
        "FROM TABLE(HOP(TABLE a, DESCRIPTOR(t), 20, 5)) "
        "GROUP BY window_end, k"
    ),
    "session": (
        "SELECT window_start, window_end, k, COUNT(*) AS n "
        "FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(t), 6)) "
        "GROUP BY window_start, window_end, k"
    ),
    "over": (
        "SELECT t, k, SUM(v) OVER (PARTITION BY k "
        "ORDER BY t RANGE BETWEEN 9 PRECEDING AND CURRENT ROW) AS s FROM a"
    ),
    "join": (
        "SELECT x.t, y.t AS u, x.k FROM a x JOIN b y ON x.k = y.k AND x.t BETWEEN y.t - 5 AND y.t "
        "+ 5"
    ),
    "lookup": "SELECT a.t, a.k, c.name FROM a JOIN c ON a.k = c.k",
}

COMMITTED = "committed"
"""Stands for a vertex: the rows that were visible at the snapshot."""

NAMES = pa.table({"k": ["k0", "k1", "k1"], "name": ["zero", "one", "uno"]})


def feed(shift: int) -> list[Entry]:
    """Rows whose times are out of order by less than the lag of 5, with a gap now and then."""
    entries: list[Entry] = []
    for number in range(24):
        times = [number * 3 + number // 4 * 20 + (i * 7 + shift) % 5 for i in range(4)]
        keys = [f"k{(number + i + shift) % 3}" for i in range(4)]
        amounts = (
            pa.array([100 * time for time in times], pa.int64())
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(21, 2))
        )
        columns = [times, keys, [number + i for i in range(4)], amounts.cast(pa.decimal128(10, 2))]
        entries.append(
            pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
        )
    return entries


@contextmanager
def plan_of(query: str) -> Iterator[Any]:
    """The plan of a query, by its name or its text, while its streams are there."""
    with runnel.connect() as connection:
        connection.execute("SET query_parallelism = 2")
        for table, shift in (("a", 0), ("b", 2)):
            connection._register(
                table, ScriptedTable(table, SCHEMA, [feed(shift)], EventTime(0, 5, 0))
            )
        connection.register("c", NAMES)
        yield connection._session.prepare(QUERIES.get(query, query), ())


def run(
    dag: DAG, restored_from: FileSnapshotStore | None, reader: StateReader | None = None
) -> list[tuple[Any, ...]]:
    """What comes out until the end. `reader` gives the state of the snapshot in the place of its
    store."""
    outside = Outside()
    last = None if restored_from is None else restored_from.completed
    coordinator = SnapshotCoordinator(
        MemorySnapshotStore(), restore_from=last, initial=reader or restored_from
    )
    simulation = Simulation(
        with_sink(dag, outside), 1, SimulationOptions(snapshot=0.05), coordinator
    )
    simulation.run()
    assert simulation.error is None, simulation.error
    return sorted(rows_of(outside.visible), key=repr)


def make(name: str) -> None:
    """Breaks a job off in its middle, and keeps its last snapshot, and what had been committed by
    then."""
    with plan_of(name) as plan:
        store, outside = MemorySnapshotStore(), Outside()
        dag = with_sink(dag_of(plan, 2), outside)
        simulation = Simulation(
            dag, 7, SimulationOptions(snapshot=0.02), SnapshotCoordinator(store)
        )
        while len(outside.visible) < 3 or store.completed is None:
            assert not simulation.execution.is_over
            simulation.step()
        outside.recover(store.completed)
        kept = FileSnapshotStore(FOLDER / name, {"query": QUERIES[name]})
        for vertex in (ENDED, *store.vertices(store.completed)):
            for batch in store.read(store.completed, vertex):
                assert kept.write(1, vertex, batch)
        kept.write(1, COMMITTED, pa.concat_batches(outside.visible))
        kept.complete(1, (), print)
        kept.close()
        broken_off(simulation, 0)


if __name__ == "__main__":
    for query in QUERIES:
        if not (FOLDER / query).exists():
            make(query)
