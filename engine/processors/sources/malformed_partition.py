"""A partition that writes its malformed records to a mapping when it reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import pyarrow as pa

from runnel.columns.batches import make_batch
from runnel.connector import (
    End,
    EventTimeMark,
    MalformedRecord,
    Pause,
    Sink,
    Skipped,
    SourcePartition,
    Token,
)
from runnel.expressions.kernels.values import array_of
from runnel.processor import ExpiredPosition
from runnel.relation.nodes import MalformedOutput
from runnel.sqltypes import VARCHAR

MOST_WAITING = 4096
"""Maximum number of records that wait for a commit.

They are committed earlier when the source has no rows at the time.
"""


class MalformedRecordPartition(SourcePartition):
    """A partition that writes its malformed records to a sink of its own."""

    def __init__(self, partition: SourcePartition, output: MalformedOutput) -> None:
        self._partition = partition
        self.identity = partition.identity
        self._output = output
        self._sink: Sink | None = None
        self._waiting = 0

    def open(self, wake: Callable[[], None]) -> None:
        self._partition.open(wake)

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        item = self._read_on()
        if self._waiting and (
            self._waiting >= MOST_WAITING or not isinstance(item, pa.RecordBatch)
        ):
            self._commit()
        return item

    @property
    def data_name(self) -> str:  # type: ignore[override]
        return self._partition.data_name

    def _read_on(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        """Read once, and write the malformed records."""
        item = self._partition.read()
        self.malformed = self._partition.malformed
        records = self._partition.take_malformed()
        if records:
            self._write(records)
        return item

    def position(self) -> Token | None:
        return self._partition.position()

    def seek(self, token: Token) -> None:
        self._partition.seek(token)

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        return self._partition.skip_to(choice)

    def begin_anew(self) -> None:
        self._partition.begin_anew()

    def close(self) -> None:
        try:
            self._partition.close()
        finally:
            sink, self._sink = self._sink, None
            if sink is not None:
                try:
                    # These records were read, so they are reported even if the query is stopped.
                    if self._waiting:
                        sink.commit(sink.stage(0))
                finally:
                    sink.close()

    def _write(self, records: Sequence[MalformedRecord]) -> None:
        schema = pa.schema([(name, pa.string()) for name in self._output.fields])
        columns = [
            array_of(list(map(attrgetter(name), records)), VARCHAR) for name in self._output.fields
        ]
        self._opened().write(make_batch(columns, schema, len(records)))
        self._waiting += len(records)

    def _opened(self) -> Sink:
        if self._sink is None:
            self._sink = self._output.table.sink(self._output.request)
        return self._sink

    def _commit(self) -> None:
        assert self._sink is not None
        self._sink.commit(self._sink.stage(0))
        self._waiting = 0
