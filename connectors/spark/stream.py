"""A streaming DataFrame as a stream of ours: Spark's micro-batches come as rows.

Each query starts a streaming query of Spark's, which runs as long as ours does. A micro-batch waits
until its rows were taken, so a reader that is behind holds Spark back. Where Spark's query ends (a
trigger that ends, a stop from elsewhere), the stream ends; where it fails, ours does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import empty_columns, slices
from runnel.connector import (
    BATCH_ROWS,
    End,
    EventTimeMark,
    Pause,
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
)
from runnel.connectors.pushed.table import BUFFERED_ROWS, StreamChannel
from runnel.connectors.spark.errors import spark_error
from runnel.connectors.spark.origin import Origin, RegisteredFrame, matched
from runnel.connectors.spark.session.owner import SessionOwner
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.types import own_batch
from runnel.errors import Error, InterfaceError, NotSupportedError, internal
from runnel.processor import JobContext


class SparkStreamTable(ReadableTable):
    """A streaming DataFrame, or files or a table that a mapping follows. `problems` says for a
    column by index why it can't be read."""

    connector = "Spark"

    def __init__(
        self,
        name: str,
        columns: Sequence[TableColumn],
        origin: Origin,
        owner: SessionOwner,
        problems: dict[int, str],
    ) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.owner = owner
        self._origin = origin
        self._problems = problems

    def own_frame(self, spark: Spark) -> Any:
        """The stream: columns c0, c1… in our types."""
        return matched(self._origin.frame(spark), self.columns, self.name)

    @property
    def is_unbounded(self) -> bool:
        return True

    @property
    def can_end(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    def frame(self, spark: Spark) -> Any:
        """The same for queries of ours that read it: a DataFrame of the user's runs in his session,
        which tells him of it."""
        origin = self._origin
        return matched(
            origin.given if isinstance(origin, RegisteredFrame) else origin.frame(spark),
            self.columns,
            self.name,
        )

    def check_readable(self, columns: Sequence[int]) -> None:
        """NotSupportedError where one of the columns has no type of ours."""
        for place in columns:
            if place in self._problems:
                raise NotSupportedError(
                    f'column "{self.columns[place].name}" of "{self.name}" can\'t be read',
                    detail=self._problems[place],
                    hint="name the columns you need, or convert this one in the DataFrame",
                )

    def scan(self, request: ScanRequest) -> Source:
        self.check_readable(request.columns)
        return SparkStreamSource(self, request.columns)


class SparkStreamSource(Source):
    """A scan: each execution starts a query of Spark's."""

    is_live = True

    def __init__(self, table: SparkStreamTable, wanted: tuple[int, ...]) -> None:
        self._table = table
        self._wanted = wanted

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table = self._table
        spark = table.owner.get()
        frame = table.frame(spark)
        frame = (
            frame.select(*[f"c{i}" for i in self._wanted])
            if self._wanted
            else frame.selectExpr("TRUE AS c0")
        )
        return [
            SparkStreamPartition(spark, frame, table.name, [table.columns[i] for i in self._wanted])
        ]


class SparkStreamPartition(SourcePartition):
    """One query of Spark's, and the rows that it has handed over."""

    def __init__(self, spark: Spark, frame: Any, name: str, columns: Sequence[TableColumn]) -> None:
        self._spark = spark
        self._frame = frame
        self._names = [column.name for column in columns]
        self._types = [column.type for column in columns]
        self._channel = StreamChannel(name, BUFFERED_ROWS)
        self._queue = self._channel.attach(range(len(columns)))[1]
        self._query: Any = None
        self._error: Error | None = None

    def open(self, wake: Callable[[], None]) -> None:
        self._queue.wake = wake
        try:
            self._query = self._spark.start_stream(self._frame.writeStream, self._take)
        except Exception as error:
            raise spark_error(error) from error
        Thread(target=self._watch, name="runnel-spark-stream", daemon=True).start()

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        item = self._channel.take(self._queue)
        if isinstance(item, End) and self._error is not None:
            raise self._error
        return item

    def close(self) -> None:
        self._channel.close()
        query, self._query = self._query, None
        if query is not None:
            # Spark waits there for its micro-batch: a worker of ours has no time for that.
            Thread(
                target=_stop, args=(query,), name="runnel-spark-stream-stop", daemon=True
            ).start()

    def _take(self, rows: Any, epoch: int) -> None:
        """Called by Spark with each micro-batch, on a thread of its own."""
        try:
            # In the session of the query alone, not in that of who made the DataFrame.
            rows.sparkSession.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
            fetch = self._spark.fetch(rows, is_ordered=True, description="a batch of a stream")
            for batch in fetch.batches():
                for piece in slices(batch, BATCH_ROWS):
                    own = (
                        own_batch(piece, self._names, self._types)
                        if self._names
                        else empty_columns(piece.num_rows)
                    )
                    self._channel.put(own, None)
        except InterfaceError:
            pass  # nobody reads any more
        except Exception as error:
            # What Spark's own report of it says is about the callback, not about the data.
            self._fail(error)

    def _watch(self) -> None:
        query = self._query
        try:
            if query is not None:
                query.awaitTermination()
        except Exception as error:
            self._fail(error)
        self._channel.close()

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            found = spark_error(error)
            self._error = (
                found
                if isinstance(found, Error)
                else internal(f"Spark's error became a {type(found).__name__}")
            )
        self.close()


def _stop(query: Any) -> None:
    # What Spark has to say of a query that is given up is of no use to anybody.
    with suppress(Exception):
        query.stop()
