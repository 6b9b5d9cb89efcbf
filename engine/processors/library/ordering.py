"""Order and distinct rows in hand-built DAGs."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from runnel.columns.batches import join_batches
from runnel.columns.key_hash import keyed_state
from runnel.dag import ProcessorFactory, storable
from runnel.errors import InterfaceError, ProgrammingError
from runnel.expressions.nodes import Literal, SortKey
from runnel.processor import Watermark
from runnel.processors.grouping.distinct_rows import DistinctRows
from runnel.processors.library.aggregate_operation import LIBRARY
from runnel.processors.library.by_schema import OperatorProcessor
from runnel.processors.library.typed_rows import column_of, field_of
from runnel.processors.sorting.ordering import Ordering
from runnel.processors.sorting.sort import SortProcessor
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.sqltypes import BIGINT


@storable(LIBRARY)
def sort_rows(*columns: str, limit: int | None = None) -> ProcessorFactory:
    """A step that emits its rows in an order when its input has ended.

    One processor sorts all rows; several processors each sort the rows that they receive.

    columns: names of columns, the most significant first; "-price" is in descending order. NULL is
        the smallest value, as in SQL.
    limit: the number of rows to emit; None: all.
    """
    if not columns:
        raise ProgrammingError("an order needs at least one column")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ProgrammingError(f"the number of rows must be an integer from 0 on, not {limit!r}")
    count = None if limit is None else Literal(value=limit, type=BIGINT)

    def compile_for(schema: pa.Schema) -> EmittingProcessor:
        return SortProcessor(Ordering([_sort_key(schema, item) for item in columns]), count, None)

    return lambda: OperatorProcessor(compile_for)


@storable(LIBRARY)
def top_rows(count: int, *columns: str) -> ProcessorFactory:
    """A step that emits the first `count` rows in an order, as `sort_rows` describes it.

    In two stages, each of several processors finds the first rows of its input, and one more
    `top_rows` finds the first ones of these.
    """
    if count is None:
        raise ProgrammingError("top_rows needs a number of rows")
    return sort_rows(*columns, limit=count)


def _sort_key(schema: pa.Schema, name: str) -> SortKey:
    if not isinstance(name, str):
        raise InterfaceError(f"a column is named by a str, not by a {type(name).__name__}")
    is_descending = name.startswith("-") and name not in schema.names
    column = column_of(schema, name[1:] if is_descending else name)
    return SortKey(column, is_descending, not is_descending)


@storable(LIBRARY)
def distinct_rows(*columns: str) -> ProcessorFactory:
    """A step that emits each combination of values in some columns once, when it first occurs.

    It emits these columns only, as SELECT DISTINCT. An edge to several of these processors must be
    partitioned by the columns, or some of them. The values that occurred are state, without bound
    if the input has no end.

    columns: names of the columns; none: all columns.
    """
    return lambda: OperatorProcessor(lambda schema: DistinctProcessor(schema, columns), columns)


class DistinctProcessor(EmittingProcessor):
    """Emits the values of some columns that did not occur before.

    schema: the columns of the rows.
    columns: names of the columns to emit; none: all columns.
    """

    def __init__(self, schema: pa.Schema, columns: tuple[str, ...]) -> None:
        super().__init__()
        self._columns = [field_of(schema, name).name for name in columns] or schema.names
        self._known = DistinctRows()
        self._batches: list[pa.RecordBatch] = []

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        rows = self._known.new_rows(batch.select(self._columns))
        if rows.num_rows:
            self._batches.append(rows)
            self.emit(rows)
        self.check_accumulated(self._known.count)

    def process_watermark(self, watermark: Watermark) -> bool:
        return self.drain() and self.outbox.offer(watermark)

    def flush(self) -> bool:
        return self.drain()

    def complete_edge(self, ordinal: int) -> bool:
        return self.drain()

    def complete(self) -> bool:
        return self.drain()

    def state(self) -> Iterable[pa.RecordBatch]:
        if self._batches:
            self._batches = [join_batches(self._batches)]
        return [keyed_state(batch, *self._columns) for batch in self._batches]

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        rows = self._known.new_rows(batch.replace_schema_metadata(None))
        if rows.num_rows:
            self._batches.append(rows)

    def state_size(self) -> tuple[int, int]:
        batches = list(self._batches)
        return sum(item.num_rows for item in batches), sum(item.nbytes for item in batches)
