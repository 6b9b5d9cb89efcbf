"""The tables that generated queries read, as tables of every kind: registered, maps, DuckDB's,
files, and views of these."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

import runnel
from tests.differential.tables import SCHEMA, in_disguise

COLUMNS = (
    "k BIGINT, i INTEGER, f DOUBLE, s VARCHAR, d DECIMAL(9, 2), b BOOLEAN, t DATE, w TIMESTAMP"
)
MAP_OPTIONS = "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
KINDS = ("registered", "map", "DuckDB", "parquet", "csv", "json", "view")


def put(
    connection: runnel.Connection,
    name: str,
    table: pa.Table,
    kind: str,
    place: tuple[Path, random.Random],
) -> None:
    """Makes a table of a kind, with the files it needs in the folder that is given with the source
    of chance."""
    folder, source = place
    match kind:
        case "registered":
            connection.register(name, in_disguise(table, source))
        case "map":
            make_map(connection, name, table, source)
        case "DuckDB":
            connection.execute(f"CREATE MAPPING {name} ({COLUMNS}) TYPE DuckDB")
            _insert(connection, name, table)
        case "view":
            below = source.choice([item for item in KINDS if item != "view"])
            put(connection, f"{name}_below", table, below, place)
            columns = ", ".join(
                f"COALESCE({item}, NULL) AS {item}" if source.random() < 0.3 else item
                for item in SCHEMA
            )
            connection.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM {name}_below")
        case _ if not table.num_rows:  # a sink of files writes none
            connection.register(name, table)
        case _:
            path = folder / f"{name}.{kind}"
            options = f"OPTIONS ('path' = '{path}', 'format' = '{kind}')"
            connection.execute(f"CREATE MAPPING {name} ({COLUMNS}) TYPE File {options}")
            _insert(connection, name, table)


def _insert(connection: runnel.Connection, name: str, table: pa.Table) -> None:
    connection.register("rows_of_table", table)
    connection.execute(f"INSERT INTO {name} SELECT * FROM rows_of_table")


def make_map(
    connection: runnel.Connection, name: str, table: pa.Table, source: random.Random
) -> None:
    """The table as a map, whose key no query names, with or without indexes."""
    connection.execute(f"CREATE MAPPING {name} (__key BIGINT, {COLUMNS}) TYPE IMap {MAP_OPTIONS}")
    rows = [(key, *row.values()) for key, row in enumerate(table.to_pylist())]
    source.shuffle(rows)
    connection.cursor().executemany(f"SINK INTO {name} VALUES (?{', ?' * len(SCHEMA)})", rows)
    for column in source.sample(list(SCHEMA), 4):
        connection.execute(
            f"CREATE INDEX {name}_{column} ON {name} ({column}) "
            f"TYPE {source.choice(('SORTED', 'HASH'))}"
        )
