"""A table on its way from a client: read batch by batch, each checked before anything else looks at it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.serving.messages import WrongMessage
from runnel.serving.open_calls import Context, OpenCall

if TYPE_CHECKING:
    import pyarrow.flight as flight

    from runnel.serving.open_calls import OpenCalls

logger = logging.getLogger("runnel.serving")


class TableUpload(OpenCall):
    """The call that sends a table. Where the client sends no batch for `patience` seconds the connection is cut, if the
    operating system can do that, so that Flight's thread is free."""

    def __init__(self, context: Context, calls: OpenCalls, *, patience: float) -> None:
        super().__init__(context, lambda: None)  # the read ends by itself with the connection
        self._calls = calls
        self._patience = patience
        self._waits_since = calls.clock()

    def receive(self, reader: flight.MetadataRecordBatchReader, rows: int, check_size: Callable[[int], object]) -> pa.Table:
        """The whole table; WrongMessage where it has not `rows` rows, e.g. as the client was killed meanwhile: Flight then ends
        the batches in the same way as after the last one. `check_size` is given the bytes read so far, and may raise."""
        batches: list[pa.RecordBatch] = []
        size = 0
        try:
            with self._calls.watched(self):
                schema = reader.schema
                while (batch := self._next(reader)) is not None:
                    batch.validate(full=True)  # before anything else looks at it: its offsets may lead anywhere
                    size += batch.nbytes
                    check_size(size)
                    batches.append(batch)
            table = pa.Table.from_batches(batches, schema)
        except (pa.ArrowException, OSError) as error:
            raise WrongMessage(f"the rows can't be read: {error}") from error
        if table.num_rows != rows:
            raise WrongMessage(f"{table.num_rows} rows came of a table of {rows}")
        return table

    def is_stalled(self, now: float) -> bool:
        return now - self._waits_since > self._patience

    def on_stalled(self) -> None:
        if not self.is_given_up:
            self.is_given_up = True
            logger.warning("a client has sent nothing of its table for %g s: its connection is cut", self._patience)
        self._calls.cut(self)

    def _next(self, reader: flight.MetadataRecordBatchReader) -> pa.RecordBatch | None:
        try:
            batch = reader.read_chunk().data
        except StopIteration:
            return None
        self._waits_since = self._calls.clock()
        if batch is None:
            raise WrongMessage("a message has no rows")
        return batch
