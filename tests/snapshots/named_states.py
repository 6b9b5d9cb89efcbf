"""What snapshots call their state: plans of many queries, the identity of each vertex, and the
columns of what it saves."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import runnel
from runnel.catalog import EventTime
from runnel.columns.key_hash import KEY_METADATA
from runnel.connection import Connection
from runnel.planner.identity.vertices import state_signatures
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.snapshots.store import SIGNATURES, MemorySnapshotStore
from tests.snapshots.crashes import Outside, dag_of, with_sink
from tests.snapshots.stored import NAMES, SCHEMA, feed
from tests.streams.scripted_table import Entry, ScriptedTable

FOLDER = Path(__file__).parent / "stored_names"
RULE = "=" * 80

MOMENTS = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("x", pa.float64())])
LISTS = pa.schema([("t", pa.int64()), ("tags", pa.list_(pa.string()))])
PRICES = pa.table(
    {
        "since": pa.array([0, 50, 50], pa.int64()),
        "k": ["k0", "k1", "k2"],
        "v": pa.array([1, 2, 3], pa.int64()),
    }
)


VIEWS = (
    "CREATE MATERIALIZED VIEW seen AS SELECT k, COUNT(*) AS n FROM h GROUP BY k",
    "CREATE MATERIALIZED VIEW often AS SELECT n, COUNT(*) AS keys FROM seen GROUP BY n",
)


def queries() -> list[str]:
    """The statements of `queries.sql`, without comments and final semicolons."""
    lines = [
        line
        for line in (FOLDER / "queries.sql").read_text("utf-8").split("\n")
        if not line.startswith("--")
    ]
    return [text.strip() for text in "\n".join(lines).split(";\n") if text.strip()]


def _of_schema(schema: pa.Schema, shift: int) -> list[Entry]:
    """The rows of `feed` with other columns."""
    entries: list[Entry] = []
    for batch in feed(shift):
        assert isinstance(batch, pa.RecordBatch)
        times, keys, values, _ = batch.to_pydict().values()
        moments = [datetime(2026, 1, 1) + timedelta(seconds=time) for time in times]
        made = {
            "t": times,
            "k": keys,
            "ts": moments,
            "x": [value / 4 for value in values],
            "tags": [[key] for key in keys],
        }
        entries.append(
            pa.record_batch(
                [pa.array(made[field.name], field.type) for field in schema], schema=schema
            )
        )
    return entries


@contextmanager
def connected(folder: Path) -> Iterator[Connection]:
    """A connection with the tables of the queries."""
    with runnel.connect() as connection:
        connection.execute("SET query_parallelism = 2")
        for name, shift in (("a", 0), ("b", 2)):
            connection._register(
                name, ScriptedTable(name, SCHEMA, [feed(shift)], EventTime(0, 5, 0))
            )
        connection._register("free", ScriptedTable("free", SCHEMA, [feed(1)], None))
        for name, schema, lag in (
            ("e", MOMENTS, 5_000_000),
            ("f", MOMENTS, 5_000_000),
            ("g", LISTS, 5),
        ):
            connection._register(
                name,
                ScriptedTable(name, schema, [_of_schema(schema, lag % 3)], EventTime(0, lag, 0)),
            )
        connection.register("c", NAMES)
        connection.register("h", PRICES)
        options = "'keyFormat' = 'bigint', 'valueFormat' = 'json-flat'"
        connection.execute(
            f"CREATE MAPPING m (__key BIGINT, name VARCHAR) TYPE IMap OPTIONS ({options})"
        )
        (folder / "r.csv").write_text("k,name\nk0,zero\n")
        for name, columns in (
            ("late", "t BIGINT, k VARCHAR"),
            ("late_moments", "ts TIMESTAMP, k VARCHAR"),
        ):
            options = f"'path' = '{folder}/{name}', 'format' = 'csv'"
            connection.execute(f"CREATE MAPPING {name} ({columns}) TYPE File OPTIONS ({options})")
        options = f"'path' = '{folder}/r.csv', 'format' = 'csv', 'refreshMillis' = '5000'"
        connection.execute(
            f"CREATE MAPPING r (k VARCHAR, name VARCHAR) TYPE File OPTIONS ({options})"
        )
        connection.execute("CREATE INDEX by_name ON m (name) TYPE SORTED")
        connection.execute("CREATE MAPPING q (k VARCHAR, v BIGINT) TYPE DuckDB")
        for view in VIEWS:
            connection.execute(view)
        options = f"'path' = '{folder}/log', 'format' = 'jsonl', 'follow' = 'true'"
        connection.execute(
            "CREATE MAPPING log (k VARCHAR, v BIGINT) TYPE File OPTIONS "
            f"({options}, 'changes' = 'debezium', 'changeKey' = 'k')"
        )
        connection.register_stream("s", SCHEMA, time_column="t", max_disorder=5)
        yield connection


def plan_of(connection: Connection, sql: str) -> Any:
    """The plan of a query, or of a statement that writes as a job runs it."""
    if sql.startswith(("SELECT", "WITH")):
        return connection._session.prepare(sql, ())
    return connection._session.plan_job(sql, (), "UTC", is_confined=False)


def saved_columns(plan: Any) -> dict[str, list[str]]:
    """The columns of what each vertex saves, with the columns that divide it, as found in snapshots
    of a run to its end."""
    store, outside = MemorySnapshotStore(), Outside()
    dag = with_sink(dag_of(plan, 2), outside)
    simulation = Simulation(dag, 7, SimulationOptions(snapshot=0.02), SnapshotCoordinator(store))
    found: dict[str, set[str]] = {}
    last = None
    while not simulation.execution.is_over:
        simulation.step()
        if store.completed != last:
            last = store.completed
            for vertex in store.vertices(last):
                if vertex not in ("", SIGNATURES):
                    found.setdefault(vertex, set()).update(map(_columns, store.read(last, vertex)))
    assert simulation.error is None, simulation.error
    return {vertex: sorted(texts) for vertex, texts in sorted(found.items())}


def _columns(batch: pa.RecordBatch) -> str:
    keys = (batch.schema.metadata or {}).get(KEY_METADATA, b"").decode().replace("\n", ", ")
    return ", ".join(f"{field.name} {field.type}" for field in batch.schema) + (
        f" by {keys}" if keys else ""
    )


def identities(connection: Connection, sql: str) -> dict[str, str]:
    """The encoded meanings of the vertices of a query, as they stand beside its state."""
    found = state_signatures(plan_of(connection, sql).physical, 2)
    return {vertex: meaning.encode() for vertex, meaning in found.items()}


def may_end(sql: str) -> bool:
    """Whether a query can be run to its end without further input: not over the stream `s`.

    Only the columns of such queries are pinned. The scripted stream `a` ends.
    """
    return sql.startswith(("SELECT", "WITH")) and not re.search(
        r" s\b[ ,)]|TABLE s,|GENERATE_STREAM|FROM q ", sql
    )


def identity_lines(connection: Connection, sql: str) -> list[str]:
    """The lines of `identities.txt` for a query."""
    return [f"{vertex}: {text}" for vertex, text in identities(connection, sql).items()]


def column_lines(connection: Connection, sql: str) -> list[str]:
    """The lines of `columns.txt` for a query."""
    found = saved_columns(plan_of(connection, sql)) if may_end(sql) else {}
    return [f"{vertex}: {columns}" for vertex, items in found.items() for columns in items]


LISTED: dict[str, Callable[[Connection, str], list[str]]] = {
    "identities": identity_lines,
    "columns": column_lines,
}
"""What is written down, by the names of files."""


def written_down(name: str) -> dict[str, list[str]]:
    """The lines of a file, by query."""
    path = FOLDER / f"{name}.txt"
    blocks = path.read_text("utf-8").split(f"{RULE}\n")[1:] if path.exists() else []
    return {lines[0]: lines[1:] for lines in (block.rstrip("\n").split("\n") for block in blocks)}


def write_down() -> None:
    """Adds the lines of queries that are new. Those that are there are never made again: they are
    what users have on their disks."""
    with tempfile.TemporaryDirectory() as folder, connected(Path(folder)) as connection:
        for name, listed in LISTED.items():
            known = written_down(name)
            with (FOLDER / f"{name}.txt").open("a", encoding="utf-8") as file:
                for sql in queries():
                    if sql in known:
                        continue
                    if name == "columns" and not may_end(sql):
                        print(f"no columns are pinned of this query, use the stream a: {sql}")
                    file.write("\n".join([RULE, sql, *listed(connection, sql), ""]))


if __name__ == "__main__":
    write_down()
