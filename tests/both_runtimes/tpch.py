"""The TPC-H queries, on Spark and by our operators, over the tables at a small scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tpch import QUERIES, TABLES, query
from benchmarks.tpch.__main__ import generate
from tests.both_runtimes.pair import Difference, Pair

SCALE = "0.01"


def differences(pair: Pair, folder: Path, numbers: Sequence[int] = QUERIES) -> Iterator[Difference]:
    """What is otherwise on Spark; each query must run there as a whole."""
    generate(folder, SCALE)
    for name in TABLES:
        rows = pq.read_table(folder / f"{name}.parquet")
        plain = [pa.string() if pa.types.is_string_view(field.type) else field.type for field in rows.schema]
        pair.put(name, rows.cast(pa.schema(list(zip(rows.column_names, plain, strict=True)))))
    for number in numbers:
        lines = [line for (line,) in pair.there.execute(f"EXPLAIN (PHYSICAL) {query(number)}").fetchall()]
        if not lines[0].startswith("Fragment on Spark"):
            yield Difference(f"query {number}", f"isn't run by Spark as a whole: {lines}")
        found = pair.difference(query(number))
        if found is not None:
            yield Difference(f"query {number}", found.what)
