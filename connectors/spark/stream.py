"""A streaming DataFrame as a stream of Runnel: Spark's micro-batches become rows.

Each query starts a streaming query of Spark, which runs as long as the Runnel query. A micro-batch
waits until its rows were read, so a slow reader slows Spark down. When Spark's query ends (a
trigger that ends, a stop by other means), the stream ends; when it fails, the Runnel query fails.
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
    ScanRequest,
    Source,
    SourcePartition,
    SourceTraits,
)
from runnel.connectors.pushed.table import BUFFERED_ROWS, StreamChannel
from runnel.connectors.spark.errors import spark_error
from runnel.connectors.spark.origin import RegisteredFrame, matched
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.table import SparkReadableTable
from runnel.connectors.spark.types import own_batch
from runnel.errors import Error, InterfaceError, internal
from runnel.processor import JobContext


class SparkStreamTable(SparkReadableTable):
    """A streaming DataFrame, or files or a table that a mapping follows."""

    def own_frame(self, spark: Spark) -> Any:
        """The stream: columns c0, c1… in Runnel's types."""
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
        """The stream for queries of Runnel.

        A registered DataFrame runs in the user's session, which reports on its progress.
        """
        origin = self._origin
        return matched(
            origin.dataframe if isinstance(origin, RegisteredFrame) else origin.frame(spark),
            self.columns,
            self.name,
        )

    def scan(self, request: ScanRequest) -> Source:
        self.check_readable(request.columns)
        return SparkStreamSource(self, request.columns)


class SparkStreamSource(Source):
    """A scan: each execution starts a query of Spark."""

    traits = SourceTraits(is_live=True)

    def __init__(self, table: SparkStreamTable, requested: tuple[int, ...]) -> None:
        self._table = table
        self._requested = requested

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table = self._table
        spark = table.owner.get()
        frame = table.frame(spark)
        frame = (
            frame.select(*[f"c{i}" for i in self._requested])
            if self._requested
            else frame.selectExpr("TRUE AS c0")
        )
        return [
            SparkStreamPartition(
                spark, frame, table.name, [table.columns[i] for i in self._requested]
            )
        ]


class SparkStreamPartition(SourcePartition):
    """One query of Spark, and the rows that it has passed on."""

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
            # The call waits for Spark's current micro-batch, which would block the worker.
            Thread(
                target=_stop, args=(query,), name="runnel-spark-stream-stop", daemon=True
            ).start()

    def _take(self, rows: Any, epoch: int) -> None:
        """Called by Spark with each micro-batch, on a thread of its own."""
        try:
            # In the session of the query only, not in the session that created the DataFrame.
            rows.sparkSession.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
            fetch = self._spark.fetch(rows, is_ordered=True, description="a batch of a stream")
            for batch in fetch.batches():
                for chunk in slices(batch, BATCH_ROWS):
                    own = (
                        own_batch(chunk, self._names, self._types)
                        if self._names
                        else empty_columns(chunk.num_rows)
                    )
                    self._channel.put(own, None)
        except InterfaceError:
            pass  # the reader has left
        except Exception as error:
            # Spark's own report is about the callback, not about the data.
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
    # Errors of a query that was abandoned are of no interest.
    with suppress(Exception):
        query.stop()
