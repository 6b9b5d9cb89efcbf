"""Runs a plan over the rows of other vertices on DuckDB, which can spill: OVER, and other operators
whose input may exceed the memory.

Input batches are buffered up to a share of the memory limit. More rows go to temporary tables of
DuckDB, which writes them to disk if necessary. When all inputs have ended, DuckDB runs the plan and
the result is streamed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.columns.batches import make_batch
from runnel.dag import ProcessorFactory
from runnel.duckdb.arrow import carried_schema, from_duckdb, to_duckdb
from runnel.duckdb.errors import translated
from runnel.duckdb.stream import DuckDBStream
from runnel.errors import Error, internal
from runnel.foreign.fragment import InputRows, Unrenderable, position_of
from runnel.processor import Inbox, JobContext, Outbox, Processor, ProcessorContext
from runnel.processors.constants import row_count
from runnel.relation.nodes import Limit, Relation, walk
from runnel.relation.subqueries import GroupLimit
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.duckdb.relations import DuckDBRelations
from runnel.rendering.relations import input_name
from runnel.rendering.render import Rendering, RenderingContext
from runnel.sqltypes import SqlType, to_arrow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from runnel.duckdb.kernel import DuckDBKernel

SHARE = 4
"""The inputs together buffer at most 1/SHARE of the memory limit as Arrow batches."""

IN_MEMORY_BYTES = 1 << 30
"""Bytes that the inputs together buffer if there is no memory limit."""


class _Rows:
    """The rows of one input."""

    error: Error | None = None

    def __init__(self, number: int, types: Sequence[SqlType]) -> None:
        self.name = input_name(number)
        self.bytes = 0
        self._types = types
        self._schema = carried_schema(types)
        self._batches: deque[pa.RecordBatch] = deque()
        self._is_table = False

    def add(self, batch: pa.RecordBatch) -> None:
        rows = to_duckdb(batch, self._types, self._schema)
        self._batches.append(rows)
        self.bytes += rows.nbytes

    def spill(self, cursor: DuckDBPyConnection) -> None:
        """Move the buffered rows to a temporary table, to which later rows are added."""
        if not self._batches:
            return
        columns = ", ".join(self._schema.names)
        cursor.register(
            "arriving", pa.RecordBatchReader.from_batches(self._schema, self._drained())
        )
        if self._is_table:
            cursor.execute(f"INSERT INTO {self.name} SELECT {columns} FROM arriving")
        else:
            cursor.execute(f"CREATE TEMP TABLE {self.name} AS SELECT {columns} FROM arriving")
        cursor.unregister("arriving")
        self._is_table = True

    def register(self, cursor: DuckDBPyConnection) -> None:
        if self._is_table:
            self.spill(cursor)
        else:
            cursor.register(
                self.name, pa.RecordBatchReader.from_batches(self._schema, self._drained())
            )

    def _drained(self) -> Iterator[pa.RecordBatch]:
        """Remove and yield the batches one by one, so that each is freed after use."""
        while self._batches:
            batch = self._batches.popleft()
            self.bytes -= batch.nbytes
            yield batch

    def stop(self) -> None:
        """Do nothing: no call of this object waits."""

    def close(self) -> None:
        self._batches.clear()
        self.bytes = 0


class OnDuckDB(Processor):
    """Buffers its inputs, then runs `relation` over them on DuckDB and emits the result in order.

    The leaves of `relation` are `InputRows`; `names` are the names of the output columns. Runs at
    parallelism 1 and not cooperatively, because it may write to disk.
    """

    cooperative = False

    def __init__(self, relation: Relation, names: Sequence[str]) -> None:
        self._relation = relation
        self._schema = pa.schema(
            [
                pa.field(name, to_arrow(item.type))
                for name, item in zip(names, relation.fields, strict=True)
            ]
        )
        leaves = {node.number: node for node in walk(relation) if isinstance(node, InputRows)}
        self._inputs = {
            number: _Rows(number, [item.type for item in leaf.columns])
            for number, leaf in leaves.items()
        }
        self._kernel: DuckDBKernel | None = None
        self._cursor: DuckDBPyConnection | None = None
        self._stream: DuckDBStream | None = None
        self._waiting: pa.RecordBatch | None = None
        self._budget = IN_MEMORY_BYTES

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        if context.job.kernel is None:
            raise internal("a plan on DuckDB without a connection's DuckDB")
        self._kernel = context.job.kernel()
        if self._kernel.memory_limit is not None:
            self._budget = self._kernel.memory_limit // SHARE
        for node in walk(self._relation):
            if isinstance(node, (Limit, GroupLimit)):
                row_count(node.count, context.job.evaluation, "LIMIT")
                row_count(node.offset, context.job.evaluation, "OFFSET")

    def process(self, ordinal: int, inbox: Inbox) -> None:
        batch = inbox.poll()
        rows = self._inputs.get(ordinal)
        if batch is None or rows is None:
            return
        rows.add(batch)
        if sum(item.bytes for item in self._inputs.values()) > self._budget:
            try:
                for item in self._inputs.values():
                    item.spill(self._opened())
            except Exception as error:
                raise translated(error) from error

    def _opened(self) -> DuckDBPyConnection:
        assert self._kernel is not None
        if self._cursor is None:
            self._cursor = self._kernel.cursor()
        return self._cursor

    def complete(self) -> bool:
        if self._stream is None:
            self._stream = self._started()
        while True:
            if self._waiting is None:
                self._waiting = self._stream.take()
            if self._waiting is None:
                return self._stream.is_ended
            if not self.outbox.offer(self._waiting):
                return False
            self._waiting = None

    def _started(self) -> DuckDBStream:
        text = _text(self._relation, self.context.job)
        cursor, self._cursor = self._opened(), None
        assert self._kernel is not None
        inputs = list(self._inputs.values())
        stream = DuckDBStream(
            self._kernel, cursor, text, inputs, self._finish, partial(position_of, self._relation)
        )
        stream.start(self.context.wake)
        return stream

    def _finish(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = from_duckdb(batch, self._relation.fields)
        return make_batch(rows.columns, self._schema, rows.num_rows)

    def close(self) -> None:
        self._waiting = None
        if self._stream is not None:
            self._stream.close()
            return
        if self._cursor is not None:
            self._cursor.close()
        for item in self._inputs.values():
            item.close()


def _no_scan(scan: Relation, read: tuple[int, ...]) -> str:
    raise internal("a plan over the rows of other vertices reads a table")


def on_duckdb(relation: Relation, names: Sequence[str]) -> ProcessorFactory:
    """A supplier of processors that run `relation` on DuckDB over the rows of their inputs.

    The leaves of `relation` are `InputRows` with the number of the input. Raises Unrenderable if
    DuckDB cannot run it with Runnel's semantics.
    """
    DuckDBRelations(Rendering(DUCKDB), _no_scan).whole(relation)
    return lambda: OnDuckDB(relation, tuple(names))


def try_out(relation: Relation, job: JobContext) -> None:
    """Raise Unrenderable if the job's DuckDB refuses `relation` with the job's arguments."""
    text = _text(relation, job)
    assert job.kernel is not None
    cursor = job.kernel().cursor()
    try:
        for leaf in walk(relation):
            if isinstance(leaf, InputRows):
                schema = carried_schema([item.type for item in leaf.columns])
                cursor.register(
                    input_name(leaf.number), pa.RecordBatchReader.from_batches(schema, [])
                )
        cursor.sql(text)
    except Exception as error:
        refusal = translated(error)
        if not refusal.is_refusal:
            raise refusal from error
        raise Unrenderable(f"DuckDB: {refusal.detail}") from error
    finally:
        cursor.close()


def _text(relation: Relation, job: JobContext) -> str:
    """The SQL to run, with the arguments as literals."""
    evaluation = job.evaluation
    arguments = tuple(value.as_py() for value in evaluation.arguments)
    rendering = Rendering(
        DUCKDB, RenderingContext(arguments=arguments, zone=evaluation.zone, now=evaluation.now)
    )
    return DuckDBRelations(rendering, _no_scan).whole(relation)
