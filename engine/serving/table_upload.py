"""A table on its way from a client: read batch by batch, and each is validated before it is used.

To Flight the rows have no columns. They are sent as Arrow IPC streams in the metadata of Flight's
messages: rows in Flight's own form would be decompressed before the server could check them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.serving.messages import WrongMessage, understood
from runnel.serving.open_calls import Context, OpenCall
from runnel.serving.received_data import value_count

if TYPE_CHECKING:
    import pyarrow.flight as flight

    from runnel.serving.open_calls import OpenCalls

logger = logging.getLogger("runnel.serving")

_ALIGNED = 8
"""Alignment in bytes of the sections of an Arrow IPC stream."""


class TableUpload(OpenCall):
    """The call that sends a table. If the client sends no batch for `timeout` seconds, the
    connection is cut, if the operating system can do that, so that Flight's thread is freed."""

    def __init__(self, context: Context, calls: OpenCalls, *, timeout: float) -> None:
        super().__init__(context, lambda: None)  # the read ends by itself with the connection
        self._calls = calls
        self._timeout = timeout
        self._waits_since = calls.clock()

    def receive(
        self,
        reader: flight.MetadataRecordBatchReader,
        rows: int,
        check_size: Callable[[int], object],
    ) -> pa.Table:
        """The whole table; WrongMessage if it does not have `rows` rows, for example because the
        client was killed meanwhile: Flight then ends the batches as after the last one.
        `check_size` receives the number of bytes read so far, and may raise."""
        batches: list[pa.RecordBatch] = []
        schema: pa.Schema | None = None
        size = 0
        with self._calls.watched(self):
            with understood("the rows"):
                if len(reader.schema):
                    raise WrongMessage("they come outside of messages")
            while (chunk := self._next(reader)) is not None:
                with understood("the rows"):
                    count = value_count(chunk)
                check_size(
                    size + max(chunk.size, count)
                )  # a value without bytes of its own counts for one
                with understood("the rows"):
                    found, read = _read(chunk)
                    if found != (schema := schema or found):
                        raise WrongMessage("they aren't all of the same columns")
                size += max(count, sum(batch.nbytes for batch in read))
                check_size(size)
                batches += read
        if schema is None:
            raise WrongMessage("no rows came, and no columns")
        table = pa.Table.from_batches(batches, schema)
        if table.num_rows != rows:
            raise WrongMessage(f"{table.num_rows} rows came of a table of {rows}")
        return table

    def is_stalled(self, now: float) -> bool:
        return now - self._waits_since > self._timeout

    def on_stalled(self) -> None:
        if not self.is_given_up:
            self.is_given_up = True
            logger.warning(
                "a client has sent nothing of its table for %g s: its connection is cut",
                self._timeout,
            )
        self._calls.cut(self)

    def _next(self, reader: flight.MetadataRecordBatchReader) -> pa.Buffer | None:
        with understood("the rows"):
            try:
                chunk = reader.read_chunk().app_metadata
            except StopIteration:
                return None
        self._waits_since = self._calls.clock()
        if chunk is None:
            raise WrongMessage("a message has no rows")
        # gRPC does not align it; computing on the values relies on their alignment.
        return chunk if chunk.address % _ALIGNED == 0 else pa.py_buffer(chunk.to_pybytes())


def _read(chunk: pa.Buffer) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    with pa.ipc.open_stream(chunk) as reader:
        batches = list(reader)
        for batch in batches:
            batch.validate(
                full=True
            )  # before anything else looks at it: its offsets may lead anywhere
        return reader.schema, batches
