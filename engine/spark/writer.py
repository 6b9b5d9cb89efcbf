"""Writing from Spark: each task gives its rows to the server, and when all have done so one
statement writes them, all or none.

Of a task that is repeated the attempt counts that Spark takes. A micro-batch of a stream may come
again after a failure: the server knows its number, with the id that Spark keeps for the query in
its checkpoint, and writes it once.
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
"""The local property in which Spark tells tasks the id of their streaming query; it is the same
after a restart."""
PREFIX = "__runnel_spark_"
"""How the names begin under which rows wait on the server."""


@dataclass
class Written(WriterCommitMessage):
    """Where the rows of a task wait (None: it had none), and the streaming query that it is of."""

    name: str | None
    query: str | None = None


class StagingWriter:
    """What writers of both kinds do. It travels to the executors, so it holds no connection."""

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
                f'option "statement" of data source {NAME} takes {" or ".join(STATEMENTS)}'
            )

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return Written(None)
        context = TaskContext.get()
        # Each attempt has a name of its own: a late one must not take the place of rows of the next
        # micro-batch.
        name = f"{PREFIX}{self._identity}_{uuid4().hex}"
        with self._request.server.connect() as con:
            con.register(name, pa.Table.from_batches(batches))
        return Written(name, None if context is None else context.getLocalProperty(QUERY))

    @plainly
    def finish(self, messages: list[Any], number: int | None = None) -> None:
        """Writes what all tasks gave; under a number of the query's, once."""
        given = [
            message for message in messages if message is not None and message.name is not None
        ]
        if not given:
            return
        names, query = [message.name for message in given], given[0].query
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
        """Takes back what tasks gave, also attempts that nobody waited for."""
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
