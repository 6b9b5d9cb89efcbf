"""Spark writes to a Runnel table: all rows of a write, or none.

Each task uploads its rows to the server under a name. After all tasks succeeded, one statement
writes the uploaded rows into the table. If Spark runs a task several times, only the rows of the
attempt that Spark commits are written. Spark may repeat a micro-batch of a stream after a failure:
the server remembers the number of the last micro-batch for each streaming query, by the id that
Spark stores in the checkpoint of the query, and writes each micro-batch once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from runnel.errors import NotSupportedError, ProgrammingError
from runnel.spark.request import NAME, ReadRequest, plainly, quoted

STATEMENTS = ("INSERT", "SINK")
QUERY = "sql.streaming.queryId"
"""The local property of a task with the id of its streaming query; a restart does not change the
id."""
PREFIX = "__runnel_spark_"
"""Prefix of the names of uploaded rows on the server."""


@dataclass
class Written(WriterCommitMessage):
    """The result of a task, which Spark sends to the driver.

    name: the name of the uploaded rows on the server; None if the task had no rows.
    query: the id of the streaming query, or None.
    """

    name: str | None
    query: str | None = None


class StagingWriter:
    """The base of both writers. Spark pickles it for the executors, so it has no connection."""

    statement = "INSERT"

    def __init__(
        self, request: ReadRequest, schema: StructType, identity: str, *, overwrite: bool
    ) -> None:
        self._request = request
        self._names = list(schema.names)
        self._identity = identity
        self._target = request.target()
        if overwrite:
            raise NotSupportedError(
                f"data source {NAME} can't overwrite a table",
                hint='use mode("append"), after a DELETE if need be',
            )
        self._statement = (request.text("statement") or self.statement).upper()
        if self._statement not in STATEMENTS:
            raise ProgrammingError(
                f'option "statement" of data source {NAME} is {" or ".join(STATEMENTS)}'
            )

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Uploads the rows of a task, on an executor."""
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return Written(None)
        context = TaskContext.get()
        # Each attempt uploads under a new name: a late attempt must not replace rows of the next
        # micro-batch.
        name = f"{PREFIX}{self._identity}_{uuid4().hex}"
        with self._request.server.connect() as con:
            con.register(name, pa.Table.from_batches(batches))
        return Written(name, None if context is None else context.getLocalProperty(QUERY))

    @plainly
    def finish(self, messages: list[Any], number: int | None = None) -> None:
        """Writes the rows of all tasks, on the driver. `number` is the number of the micro-batch in
        its streaming query, which the server writes once."""
        uploads = [
            message for message in messages if message is not None and message.name is not None
        ]
        if not uploads:
            return
        names, query = [message.name for message in uploads], uploads[0].query
        try:
            with self._request.server.connect() as con:
                if number is None or query is None:
                    self._write(con, names)
                else:
                    self._write_once(con, names, f"spark/{query}", number)
        finally:
            self.give_up()

    def _write(self, con: Any, names: list[str]) -> None:
        columns = ", ".join(map(quoted, self._names))
        rows = " UNION ALL ".join(f"SELECT {columns} FROM {quoted(name)}" for name in names)
        with con.cursor() as cursor:
            cursor.execute(f"{self._statement} INTO {quoted(self._target)} ({columns}) {rows}")

    def _write_once(self, con: Any, names: list[str], writer: str, number: int) -> None:
        head = {"writer": writer, "number": number, "kind": self._statement, "table": self._target}
        con._database.write(head | {"columns": self._names, "rows": names})

    @plainly
    def give_up(self) -> None:
        """Removes the uploaded rows of all tasks from the server, also of abandoned attempts."""
        with self._request.server.connect() as con:
            con._database.ask("unregister all", {"prefix": f"{PREFIX}{self._identity}_"})


class Writer(StagingWriter, DataSourceArrowWriter):
    """Writes a DataFrame."""

    def commit(self, messages: list[Any]) -> None:
        self.finish(messages)

    def abort(self, messages: list[Any]) -> None:
        self.give_up()


class MicroBatchWriter(StagingWriter, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    statement = "SINK"

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.finish(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.give_up()
