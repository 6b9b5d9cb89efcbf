"""Malformed records of a job that takes snapshots.

The records are committed together with the snapshot that has the read position after them, so that
each record is written exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.connector import END, End, EventTimeMark, Pause, Sink, SourcePartition, Token
from runnel.processor import JobContext
from runnel.processors.sinks.durable_write import ASK_AGAIN
from runnel.processors.sources.malformed_partition import MalformedRecordPartition
from runnel.relation.nodes import MalformedOutput


class DurableMalformedRecordPartition(MalformedRecordPartition):
    """A partition whose position includes the records that it has staged.

    It ends only when its last records are committed, since a partition that has ended has no
    position.
    """

    def __init__(
        self, partition: SourcePartition, output: MalformedOutput, context: JobContext
    ) -> None:
        super().__init__(partition, output)
        self._context = context
        self._epoch = 0
        self._staged: list[Token] = []
        self._recovering: Sequence[Token] = ()
        self._has_ended = False
        self._ask_at = 0
        self._wake: Callable[[], None] = _ignore

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        super().open(wake)

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        item = END if self._has_ended else self._read_on()
        if not isinstance(item, End):
            return item
        self._has_ended = True
        if not self._waiting and not self._staged:
            return END
        now = self._context.clock()
        if now >= self._ask_at and self._context.request_snapshot is not None:
            self._ask_at = now + ASK_AGAIN
            self._context.request_snapshot()
        return Pause(self._ask_at)

    def position(self) -> Token | None:
        if self._waiting:
            self._epoch += 1
            self._staged.append(self._opened().stage(self._epoch))
            self._waiting = 0
        return {
            "place": self._partition.position(),
            "staged": list(self._staged),
            "epoch": self._epoch,
        }

    def committed(self, is_safe: bool) -> None:
        self._partition.committed(is_safe)
        if is_safe:
            while self._staged:
                self._opened().commit(self._staged[0])
                self._staged.pop(0)
            self._wake()

    def seek(self, token: Token) -> None:
        self._epoch, self._recovering = token["epoch"], token["staged"]
        if self._recovering:
            self._opened()
        # The partition seeks last: if its position has expired, it may have to continue elsewhere.
        if token["place"] is not None:
            self._partition.seek(token["place"])

    def close(self) -> None:
        try:
            self._partition.close()
        finally:
            sink, self._sink = self._sink, None
            if sink is not None:
                # Staged records remain, since the last complete snapshot may contain them. Records
                # that aren't staged are read again.
                sink.close()

    def _opened(self) -> Sink:
        """Return the sink; it recovers before the first record is written."""
        is_new = self._sink is None
        sink = super()._opened()
        if is_new:
            sink.recover(self._recovering)
        return sink


def _ignore() -> None:
    """The waker before the partition is opened."""
