"""The jobs that are killed: each query with each sink that promises exactly-once, over sources that
always give the same. Some run at-least-once too: their rows may come twice, and none may be
missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from runnel import Connection
from runnel.dag import DAG
from tests.torture import dags, growing_files

EVENTS = 16_000
RATE = 8_000
"""Events of the stream, and how many of them come in a second."""

SNAPSHOT_MILLIS = 100

LINES = 6_000
"""Lines of each followed file; the last is far ahead of the others, so that all windows before it
close."""

SPOILED = '{"k": "no number", "v": %d}'
"""Every fiftieth line of the file with records that can't be read."""


@dataclass(frozen=True)
class Query:
    """`columns` are those of its rows; the first `keys` of them are the key where they go to a map.
    `verb`: INSERT where each row has a key of its own, so that a row that came twice would be
    refused. `{bids}` and the like stand for the mappings.
    `diverts`: its source has records that can't be read, which go to a mapping of the same kind as
    the sink's; `has_late`: rows that are too late likewise. `sums`: so many of the last columns may
    be too large where rows come twice.
    dag: makes the hand-built DAG of its job; the text is for the comparison only.
    grows: its source is the folder of files that grow while the job runs.
    has_all: an endless query whose result has a row for each row of its source."""

    name: str
    columns: tuple[tuple[str, str], ...]
    keys: int
    verb: str
    text: str
    is_endless: bool = False
    diverts: bool = False
    has_late: bool = False
    sums: int = 0
    dag: Callable[[str], DAG] | None = None
    grows: bool = False
    has_all: bool = False


FILE_WINDOWS = (
    "SELECT window_end, f, COUNT(*), SUM(seq) FROM TABLE(TUMBLE(TABLE {files}, DESCRIPTOR(at), "
    "INTERVAL '2' SECOND)) GROUP BY window_end, f"
)

QUERIES = (
    Query(
        "window",
        (("s", "TIMESTAMP"), ("auction", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")),
        2,
        "INSERT",
        "SELECT window_start, auction, COUNT(*), SUM(price) "
        "FROM TABLE(TUMBLE(TABLE {bids}, DESCRIPTOR(date_time), INTERVAL '1' SECOND)) "
        "GROUP BY window_start, auction",
        sums=2,
    ),
    Query(
        "disorder",
        (("s", "TIMESTAMP"), ("auction", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")),
        2,
        "SINK",
        "SELECT window_start, auction, COUNT(*), SUM(price) "
        "FROM TABLE(TUMBLE(TABLE {disordered}, DESCRIPTOR(date_time), INTERVAL '1' SECOND)) "
        "GROUP BY window_start, auction",
        has_late=True,
    ),
    Query(
        "copy",
        (("auction", "BIGINT"), ("bidder", "BIGINT"), ("t", "TIMESTAMP"), ("price", "BIGINT")),
        3,
        "SINK",
        "SELECT auction, bidder, date_time, price FROM {bids} WHERE price % 3 <> 0",
    ),
    Query(
        "join",
        (
            ("auction", "BIGINT"),
            ("bidder", "BIGINT"),
            ("t", "TIMESTAMP"),
            ("price", "BIGINT"),
            ("seller", "BIGINT"),
        ),
        4,
        "SINK",
        "SELECT b.auction, b.bidder, b.date_time, b.price, a.seller FROM {bids} b "
        "JOIN {auctions} a "
        "ON b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.date_time + INTERVAL '2' "
        "SECOND",
    ),
    Query(
        "follow",
        (("e", "TIMESTAMP"), ("k", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")),
        2,
        "INSERT",
        "SELECT window_end, k, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE {lines}, DESCRIPTOR(at), "
        "INTERVAL '10' SECOND)) "
        "GROUP BY window_end, k",
        is_endless=True,
    ),
    Query(
        "poison",
        (("e", "TIMESTAMP"), ("k", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")),
        2,
        "INSERT",
        "SELECT window_end, k, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE {spoiled}, DESCRIPTOR(at), "
        "INTERVAL '10' SECOND)) "
        "GROUP BY window_end, k",
        is_endless=True,
        diverts=True,
    ),
    Query(
        "table",
        (("k", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")),
        1,
        "INSERT",
        "SELECT auction, COUNT(*), SUM(price) FROM {bounded_bids} GROUP BY auction",
    ),
    Query(
        "dag",
        (("k", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")),
        1,
        "INSERT",
        "SELECT auction, COUNT(*), SUM(price) FROM {bounded_bids} WHERE price % 4 <> 0 "
        "GROUP BY auction",
        dag=dags.sums,
    ),
    Query(
        "files",
        (("e", "TIMESTAMP"), ("f", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")),
        2,
        "INSERT",
        FILE_WINDOWS,
        is_endless=True,
        grows=True,
    ),
    Query(
        "panes",
        (("e", "TIMESTAMP"), ("f", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")),
        2,
        "INSERT",
        FILE_WINDOWS,
        is_endless=True,
        dag=dags.panes,
        grows=True,
    ),
    Query(
        "ordered",
        (("f", "BIGINT"), ("seq", "BIGINT"), ("before", "BIGINT")),
        2,
        "INSERT",
        "SELECT f, seq, seq - 1 FROM {files}",
        is_endless=True,
        dag=dags.ordered,
        grows=True,
        has_all=True,
    ),
)

SINKS = ("parquet", "csv", "json", "map", "duckdb")


@dataclass(frozen=True)
class Case:
    query: Query
    sink: str
    guarantee: str = "exactlyOnce"

    @property
    def name(self) -> str:
        return f"{self.query.name}_{self.sink}{'' if self.is_exact else '_again'}"

    @property
    def is_exact(self) -> bool:
        return self.guarantee == "exactlyOnce"


BAD = Query("bad", (("place", "VARCHAR"), ("record", "VARCHAR")), 1, "INSERT", "")
"""Where records go that can't be read."""

LATE = Query(
    "late",
    (("auction", "BIGINT"), ("price", "BIGINT"), ("date_time", "TIMESTAMP")),
    0,
    "INSERT",
    "",
)
"""Where rows go that are too late. Which these are depends on the moments of reading: with what is
in the windows they are all rows."""

AGAIN = ("window", "join", "copy")
CASES = (
    *(
        Case(query, sink)
        for query in QUERIES
        for sink in SINKS
        if not (query.has_late and sink == "map")
    ),
    *(
        Case(query, sink, "atLeastOnce")
        for query in QUERIES
        for sink in ("parquet", "duckdb")
        if query.name in AGAIN
    ),
)


def prepare(folder: Path) -> None:
    """Writes the files that are followed."""
    start = datetime(2024, 1, 1)
    with (folder / "lines.json").open("w") as lines, (folder / "spoiled.json").open("w") as spoiled:
        for i in range(LINES):
            at = (
                start + timedelta(milliseconds=37 * i)
                if i < LINES - 1
                else start + timedelta(days=1)
            )
            line = json.dumps({"k": i * i % 23, "v": i, "at": at.isoformat(sep=" ")}) + "\n"
            lines.write(line)
            spoiled.write(line if i % 50 else SPOILED % i + "\n")
    growing_files.prepare(folder / growing_files.FOLDER)


def sources(folder: Path, *, streams: bool) -> list[str]:
    """The statements that make the sources' mappings."""
    nexmark = f"'events' = '{EVENTS}', 'eventRate' = '1000'"
    stream = f", 'stream' = 'true', 'rate' = '{RATE}', 'idleTimeoutMillis' = '0'" if streams else ""
    follow = ", 'follow' = 'true', 'pollMillis' = '20'" if streams else ""
    columns = "(k BIGINT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at)"
    bids = (
        "(auction BIGINT, price BIGINT, date_time TIMESTAMP, WATERMARK FOR date_time AS date_time "
        "- INTERVAL '0.1' SECOND)"
    )
    made = [
        (
            "CREATE MAPPING IF NOT EXISTS bids TYPE Nexmark "
            f"OPTIONS ('table' = 'bid', {nexmark}{stream})"
        ),
        (
            "CREATE MAPPING IF NOT EXISTS auctions TYPE Nexmark "
            f"OPTIONS ('table' = 'auction', {nexmark}{stream})"
        ),
        (
            "CREATE MAPPING IF NOT EXISTS bounded_bids TYPE Nexmark "
            f"OPTIONS ('table' = 'bid', {nexmark})"
        ),
        f"CREATE MAPPING IF NOT EXISTS disordered {bids} TYPE Nexmark "
        f"OPTIONS ('table' = 'bid', {nexmark}, 'jitterMillis' = '4000'{stream})",
        f"CREATE MAPPING IF NOT EXISTS lines {columns} TYPE File "
        f"OPTIONS ('format' = 'json', 'path' = '{folder}/lines.json'{follow})",
        growing_files.mapping(folder, streams=streams),
    ]
    for kind in SINKS:
        bad = Case(BAD, kind)
        made.append(sink(bad, folder))
        if kind != "map":
            made.append(sink(Case(LATE, kind), folder))
        made.append(
            f"CREATE MAPPING IF NOT EXISTS spoiled_{kind} {columns} TYPE File OPTIONS "
            f"('format' = 'json', 'path' = '{folder}/spoiled.json', "
            f"'onError' = 'divert:{bad.name}'{follow})"
        )
    return made


def sink(case: Case, folder: Path) -> str:
    """The statement that makes the sink's mapping."""
    columns = ", ".join(f"{name} {kind}" for name, kind in case.query.columns)
    head = f"CREATE MAPPING IF NOT EXISTS {case.name}"
    if case.sink == "duckdb":
        return f"{head} ({columns}) TYPE DuckDB"
    if case.sink == "map":
        parts = [
            f'{name} {kind} EXTERNAL NAME "{"__key" if place < case.query.keys else "this"}.{name}"'
            for place, (name, kind) in enumerate(case.query.columns)
        ]
        return (
            f"{head} ({', '.join(parts)}) TYPE IMap OPTIONS ('keyFormat' = 'json-flat', "
            "'valueFormat' = 'json-flat')"
        )
    return (
        f"{head} ({columns}) TYPE File "
        f"OPTIONS ('format' = '{case.sink}', 'path' = '{folder}/{case.name}', "
        "'ignoreFileNotFound' = 'true')"
    )


def create(connection: Connection, case: Case, snapshot: str | None = None) -> None:
    """Makes the job, to begin with that snapshot if there is one."""
    if case.query.dag is None:
        connection.execute(job(case, snapshot))
        return
    options: dict[str, object] = {"snapshotIntervalMillis": SNAPSHOT_MILLIS}
    if snapshot is not None:
        options["initialSnapshotName"] = snapshot
    connection.submit(
        case.query.dag(case.name), name=case.name, guarantee=case.guarantee, options=options
    )


def job(case: Case, snapshot: str | None = None) -> str:
    """The statement that makes the job of a query; see `create`."""
    verb = case.query.verb if case.sink == "map" else "SINK"
    initial = "" if snapshot is None else f", 'initialSnapshotName' = '{snapshot}'"
    late = f" LATE DATA INTO {Case(LATE, case.sink).name}" if case.query.has_late else ""
    return (
        f"CREATE JOB {case.name} OPTIONS ('snapshotIntervalMillis' = '{SNAPSHOT_MILLIS}', "
        f"'processingGuarantee' = '{case.guarantee}'{initial}) AS {verb} INTO {case.name} "
        f"{query_text(case)}{late}"
    )


def query_text(case: Case) -> str:
    names = ("bids", "auctions", "lines", "bounded_bids", "disordered", "files")
    return case.query.text.format(**{name: name for name in names}, spoiled=f"spoiled_{case.sink}")


def outputs(case: Case) -> dict[str, str]:
    """What is to be compared: for each name a query."""
    if case.query.has_late:
        late = Case(LATE, case.sink).name
        return {
            case.query.name: (
                "SELECT s, auction, SUM(n), SUM(total) FROM "
                f"(SELECT s, auction, n, total FROM {case.name} UNION ALL "
                f"SELECT DATE_TRUNC('second', date_time), auction, 1, price FROM {late}) GROUP BY "
                "s, auction"
            )
        }
    found = {case.query.name: f"SELECT * FROM {case.name}"}
    if case.query.diverts:
        found[BAD.name] = f"SELECT record FROM {Case(BAD, case.sink).name}"
    return found


def rows(connection: Connection, query: str) -> list[list[Any]]:
    """Rows in an order of their own, as JSON gives them back."""
    found = connection.execute(query).fetchall()
    return sorted(
        [str(value) if isinstance(value, datetime) else value for value in row] for row in found
    )


def expected(connection: Connection, queries: Sequence[Query]) -> dict[str, list[list[Any]]]:
    """What the queries give of tables, by name, on a connection with the sources as tables. Of a
    stream that doesn't end the last window stays open."""
    found = {}
    for query in queries:
        case = Case(query, "map")
        given = rows(connection, query_text(case))
        if query.is_endless and not query.has_all:
            last = max(row[0] for row in given)
            given = [row for row in given if row[0] != last]
        found[query.name] = given
        if query.diverts:
            found[BAD.name] = rows(connection, outputs(case)[BAD.name])
    return found


def described(cases: Sequence[Case]) -> str:
    return ",".join(case.name for case in cases)


def named(names: str) -> list[Case]:
    return [case for case in CASES if case.name in names.split(",")]
