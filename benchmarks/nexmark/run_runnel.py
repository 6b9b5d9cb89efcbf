"""Runs one NEXMark query over one source in this process; prints its figures as JSON.

    python -m benchmarks.nexmark.run_runnel QUERY SOURCE EVENTS [FOLDER]

SOURCE is "memory" (Arrow batches, generated in advance, that a thread writes to pushed streams),
"generator" (TYPE Nexmark at full speed) or "json" (FOLDER/<table>.jsonl, files that end). A query
that can't run as a stream reads the same data as tables: registered batches, the generator's rows,
files. It runs on all cores. Its result is read as Arrow batches, which are counted and dropped.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pyarrow as pa

import runnel
from benchmarks.nexmark import STREAMED, TABLES, query

COLUMNS = {
    "bid": (
        "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, date_time "
        "TIMESTAMP, extra VARCHAR"
    ),
    "auction": (
        "id BIGINT, item_name VARCHAR, description VARCHAR, initial_bid BIGINT, reserve BIGINT, "
        "date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra VARCHAR"
    ),
    "person": (
        "id BIGINT, name VARCHAR, email_address VARCHAR, credit_card VARCHAR, city VARCHAR, state "
        "VARCHAR, date_time TIMESTAMP, extra VARCHAR"
    ),
}
GENERATED = (
    "CREATE MAPPING {name} TYPE Nexmark OPTIONS ('table' = '{table}', 'events' = '{events}'{more})"
)


def side_input() -> pa.Table:
    """The table of q13."""
    return pa.table(
        {"key": pa.array(range(10_000), pa.int64()), "value": [f"side {i}" for i in range(10_000)]}
    )


def tables_of(text: str) -> list[str]:
    """The tables that a query reads."""
    return [table for table in TABLES if re.search(rf"(FROM|JOIN|TABLE) {table}\b", text)]


def from_memory(
    connection: runnel.Connection, tables: list[str], events: int, streamed: bool
) -> list[Thread]:
    """Registers streams, and returns the threads that write to them; unless `streamed`, registers
    tables, and returns no threads."""
    threads = []
    for table in tables:
        connection.cursor().execute(
            GENERATED.format(name=f"all_{table}", table=table, events=events, more="")
        )
        rows = connection.cursor().execute(f"SELECT * FROM all_{table}").fetch_arrow_table()
        if not streamed:
            connection.register(table, rows)
            continue
        writer = connection.register_stream(
            table, rows.schema, time_column="date_time", max_disorder=timedelta(0)
        )

        def write(rows: pa.Table = rows, writer: runnel.StreamWriter = writer) -> None:
            for batch in rows.to_batches():
                writer.write(batch)
            writer.close()

        threads.append(Thread(target=write))
    return threads


def prepare(
    connection: runnel.Connection, name: str, source: str, events: int, folder: str
) -> list[Thread]:
    """Creates the tables of query `name`; returns threads to start with the query."""
    tables, streamed = tables_of(query(name)), name in STREAMED
    if source == "memory":
        return from_memory(connection, tables, events, streamed)
    for table in tables:
        if source == "generator":
            more = f", 'partitions' = '{os.cpu_count()}'" + (
                ", 'stream' = 'true'" if streamed else ""
            )
            connection.cursor().execute(
                GENERATED.format(name=table, table=table, events=events, more=more)
            )
        else:
            columns = COLUMNS[table] + (
                ", WATERMARK FOR date_time AS date_time" if streamed else ""
            )
            options = f"'path' = '{folder}/{table}.jsonl', 'format' = 'json'"
            connection.cursor().execute(
                f"CREATE MAPPING {table} ({columns}) TYPE File OPTIONS ({options})"
            )
    return []


def main(name: str, source: str, events: int, folder: str = "") -> None:
    text = query(name)
    with runnel.connect() as connection:
        connection.register("side_input", side_input())
        threads = prepare(connection, name, source, events, folder)
        busy, start = time.process_time(), time.perf_counter()
        cursor = connection.cursor().execute(text)
        for thread in threads:
            thread.start()
        rows = sum(batch.num_rows for batch in cursor.fetch_record_batch())
        seconds, cpu = time.perf_counter() - start, time.process_time() - busy
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak_memory(), "rows": rows}))


def peak_memory() -> int:
    """The peak memory of this process in bytes. (Not ru_maxrss: it begins with the peak of the
    parent process.)"""
    lines = Path("/proc/self/status").read_text("utf-8").split("\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:5])
