"""The TPC-H queries, on Spark and by our operators, over the tables at a small scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tpch import QUERIES, TABLES, query
from benchmarks.tpch.__main__ import generate
from tests.both_runtimes.pair import Difference, Pair
from tests.both_runtimes.workers import shared_out

SCALE = "0.01"


def differences(
    pairs: Sequence[Pair], folder: Path, numbers: Sequence[int] = QUERIES
) -> Iterator[tuple[int, list[Difference]]]:
    """What is otherwise on Spark by the query, each of which must run there as a whole."""
    generate(folder, SCALE)
    for name in TABLES:
        rows = pq.read_table(folder / f"{name}.parquet")
        plain = [
            pa.string() if pa.types.is_string_view(field.type) else field.type
            for field in rows.schema
        ]
        rows = rows.cast(pa.schema(list(zip(rows.column_names, plain, strict=True))))
        for pair in pairs:
            pair.put(name, rows)
    yield from shared_out(numbers, pairs, _of_query)


def _of_query(pair: Pair, number: int) -> tuple[int, list[Difference]]:
    lines = [
        line for (line,) in pair.there.execute(f"EXPLAIN (PHYSICAL) {query(number)}").fetchall()
    ]
    found = []
    if not lines[0].startswith("Fragment on Spark"):
        found.append(Difference(f"query {number}", f"isn't run by Spark as a whole: {lines}"))
    difference = pair.difference(query(number))
    if difference is not None:
        found.append(Difference(f"query {number}", difference.what))
    return number, found
