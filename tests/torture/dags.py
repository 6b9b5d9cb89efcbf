"""The hand-built DAGs among the jobs that are killed, in a module that each process can import."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.key_hash import keyed_state
from runnel.dag import DAG, between
from runnel.processors.library import (
    AggregateOperation,
    accumulate_by_key,
    accumulate_by_pane,
    combine_by_key,
    combine_by_window,
    counting,
    filter_rows,
    map_batches,
    read_mapping,
    tumbling,
    write_mapping,
)
from runnel.processors.stateful.buffered import EmittingProcessor


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


def panes(sink: str) -> DAG:
    """Counts and sums of the rows of growing files, by windows, in two stages."""
    dag = DAG()
    operations = {"n": counting(), "total": SEQUENCES}
    window = tumbling(timedelta(seconds=2))
    files = dag.vertex("files", read_mapping("files"))
    first = dag.vertex("first", accumulate_by_pane("f", time="at", window=window, **operations))
    last = dag.vertex("last", combine_by_window("f", time="at", window=window, **operations))
    rows = dag.vertex("rows", map_batches(by_end))
    write = dag.vertex("write", write_mapping(sink), 1)
    for edge in (
        between(files, first).partitioned("f"),
        between(first, last).partitioned("f"),
        between(last, rows),
        between(rows, write),
    ):
        dag.edge(edge)
    return dag


def numbered(total: int, rows: pa.RecordBatch) -> int:
    return total + int(pc.sum(rows["seq"]).as_py())


SEQUENCES = AggregateOperation(
    create=int, accumulate=numbered, combine=both, export=same, type=pa.int64()
)


def by_end(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [rows[name] for name in ("window_end", "f", "n", "total")]
    return pa.RecordBatch.from_arrays(columns, names=["e", "f", "n", "total"])


def ordered(sink: str) -> DAG:
    """Each row of growing files with the number of the row of its file that came before it."""
    dag = DAG()
    files = dag.vertex("files", read_mapping("files", columns=["f", "seq"]))
    before = dag.vertex("before", Predecessors)
    write = dag.vertex("write", write_mapping(sink), 1)
    dag.edge(between(files, before).partitioned("f"))
    return dag.edge(between(before, write))


class Predecessors(EmittingProcessor):
    """Adds to each row the number of the row of its file that arrived before it; -1 to the first.

    Its state is the number of the last row of each file.
    """

    key_names = ("f",)

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[int, int] = {}

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        before = []
        for file, number in zip(batch["f"].to_pylist(), batch["seq"].to_pylist(), strict=True):
            before.append(self._last.get(file, -1))
            self._last[file] = number
        columns = [batch["f"], batch["seq"], pa.array(before, pa.int64())]
        self.emit(pa.RecordBatch.from_arrays(columns, names=["f", "seq", "before"]))

    def complete(self) -> bool:
        return self.drain()

    def flush(self) -> bool:
        return self.drain()

    def state(self) -> Iterator[pa.RecordBatch]:
        if self._last:
            columns = [
                pa.array(self._last.keys(), pa.int64()),
                pa.array(self._last.values(), pa.int64()),
            ]
            yield keyed_state(pa.RecordBatch.from_arrays(columns, names=["f", "seq"]), "f")

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        for file, number in zip(batch["f"].to_pylist(), batch["seq"].to_pylist(), strict=True):
            self._last[file] = number
