"""The hand-built DAG among the jobs that are killed, in a module that each process can import."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.dag import DAG, between
from runnel.processors.library import (
    AggregateOperation,
    accumulate_by_key,
    combine_by_key,
    counting,
    filter_rows,
    map_batches,
    read_mapping,
    write_mapping,
)


def cheap(rows: pa.RecordBatch) -> pa.BooleanArray:
    return pc.not_equal(pc.bit_wise_and(rows["price"], 3), 0)


def added(total: int, rows: pa.RecordBatch) -> int:
    return total + int(pc.sum(rows["price"]).as_py())


def both(one: int, other: int) -> int:
    return one + other


def same(total: int) -> Any:
    return total


TOTAL = AggregateOperation(create=int, accumulate=added, combine=both, export=same, type=pa.int64())


def named(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns, names=["k", "n", "total"])


def sums(sink: str) -> DAG:
    """Counts and sums of bids by auction, in two stages, with accumulators of Python."""
    dag = DAG()
    operations = {"n": counting(), "total": TOTAL}
    bids = dag.vertex("bids", read_mapping("bounded_bids", columns=["auction", "price"]))
    some = dag.vertex("filter", filter_rows(cheap))
    first = dag.vertex("first", accumulate_by_key("auction", **operations))
    last = dag.vertex("last", combine_by_key("auction", **operations))
    rows = dag.vertex("rows", map_batches(named))
    write = dag.vertex("write", write_mapping(sink), 1)
    for edge in (
        between(bids, some).isolated(),
        between(some, first).partitioned("auction"),
        between(first, last).partitioned("auction"),
        between(last, rows),
        between(rows, write),
    ):
        dag.edge(edge)
    return dag
