"""A scan or a fragment that Spark runs, as a source: its rows are emitted as Spark finishes them.

Threads of the fetch plan and run the query. A source partition reads only available rows, so it
never blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

import pyarrow as pa

from runnel.columns.batches import empty_columns, slices
from runnel.connector import END, End, Pause, SourcePartition
from runnel.connectors.spark.session.fetch import Fetch
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.types import own_batch
from runnel.errors import Error, Position
from runnel.relation.nodes import Field
from runnel.sqltypes import SqlType

LocateError = Callable[[Error], Position | None]

READERS = 2
"""The number of partitions of a result without an order: enough for the operators above to share
the work."""


class SparkPartition(SourcePartition):
    """A reader of one fetch."""

    def __init__(
        self,
        fetch: Fetch,
        fields: Sequence[Field],
        limit: int | None = None,
        locate: LocateError | None = None,
    ) -> None:
        self._fetch = fetch
        self._locate = locate
        self._names = [field.name for field in fields]
        self._types = [field.type for field in fields]
        self._left = limit
        self._slices: list[pa.RecordBatch] = []
        self._is_open = True
        self._is_first = fetch.add_reader()

    def open(self, wake: Callable[[], None]) -> None:
        self._fetch.open(wake)

    def read(self) -> pa.RecordBatch | Pause | End:
        if self._left == 0:
            self.close()
            return END
        if not self._slices:
            try:
                taken = self._fetch.take()
            except Error as error:
                if self._locate is not None and error.position is None:
                    error.position = self._locate(error)
                raise
            if taken is None:
                return Pause()
            if taken is False:
                return END
            assert isinstance(taken, pa.RecordBatch)
            whole = (
                own_batch(taken, self._names, self._types)
                if self._names
                else empty_columns(taken.num_rows)
            )
            self._slices = list(slices(whole))
        batch = self._slices.pop(0)
        if self._left is not None:
            batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        return batch

    def tasks(self) -> tuple[int, int]:
        return self._fetch.tasks() if self._is_first else (0, 0)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._slices = []
            self._fetch.close_reader()


class ViewedTable(Protocol):
    """A table of Spark that queries read through a view; see `SparkTable`."""

    def own_frame(self, spark: Spark) -> Any: ...
    def lasting_view(self, spark: Spark) -> str | None: ...


class Views:
    """The temporary views that one query reads, one per table; dropped when the query is
    planned."""

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._names: dict[int, str] = {}
        self._stack = ExitStack()

    def name(self, table: ViewedTable) -> str:
        """The view of a table, whose columns are c0, c1… in Runnel's types."""
        name = self._names.get(id(table))
        if name is None:
            name = table.lasting_view(self._spark)
            if name is None:
                name = self._spark.view(table.own_frame(self._spark))
                self._stack.callback(self._spark.drop_view, name)
            self._names[id(table)] = name
        return name

    def moved(self, rows: pa.Table, types: Sequence[SqlType]) -> str:
        """A view of rows that are not Spark's: columns c0, c1… of these types."""
        name = self._spark.view(self._spark.made(rows, types))
        self._stack.callback(self._spark.drop_view, name)
        return name

    def __enter__(self) -> Views:
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stack.close()


def partitions(
    fetch: Fetch,
    fields: Sequence[Field],
    limit: int | None = None,
    locate: LocateError | None = None,
) -> Sequence[SourcePartition]:
    """The partitions that read a DataFrame with the columns `fields`, up to `limit` rows.

    Without fields, the DataFrame has any one column. `locate` returns the position in the statement
    that a failure belongs to.
    """
    readers = 1 if fetch.is_ordered or limit is not None else READERS
    return [SparkPartition(fetch, fields, limit, locate) for _ in range(readers)]
