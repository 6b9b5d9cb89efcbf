"""A stream whose rows, watermarks and pauses stand in a script, so that every batch is cut where
the script says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import pyarrow as pa

from runnel.catalog import EventTime
from runnel.columns.batches import empty_columns
from runnel.connector import (
    END,
    End,
    EventTimeMark,
    Pause,
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.connectors.pushed.rows import stream_columns
from runnel.processor import JobContext


class Cue(Enum):
    """IDLE: nothing is expected soon, and then the script goes on. HOLD: nothing more before
    `ScriptedTable.release`."""

    IDLE = "IDLE"
    HOLD = "HOLD"


IDLE, HOLD = Cue.IDLE, Cue.HOLD
Entry = pa.RecordBatch | EventTimeMark | Cue


class ScriptedTable(ReadableTable):
    """One partition for each script; every execution reads them from the start."""

    connector = "Script"

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        scripts: Sequence[Sequence[Entry]],
        event_time: EventTime | None,
    ) -> None:
        self.name = name
        self.columns = stream_columns(name, schema)
        self.event_time = event_time
        self.scripts = [list(script) for script in scripts]
        self.is_released = False
        self.wakes: list[Callable[[], None]] = []

    @property
    def is_unbounded(self) -> bool:
        return True

    @property
    def can_end(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return _ScriptSource(self, request.columns)

    def rewind(self) -> None:
        """Makes it hold again, for the executions to come."""
        self.is_released = False
        self.wakes.clear()

    def release(self) -> None:
        """Lets the partitions that hold go on."""
        self.is_released = True
        for wake in self.wakes:
            wake()


class _ScriptSource(Source):
    traits = SourceTraits(is_repeatable=True)

    def __init__(self, table: ScriptedTable, columns: tuple[int, ...]) -> None:
        self._table = table
        self._columns = columns

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [
            _ScriptPartition(self._table, script, self._columns) for script in self._table.scripts
        ]


class _ScriptPartition(SourcePartition):
    def __init__(
        self, table: ScriptedTable, script: Sequence[Entry], columns: tuple[int, ...]
    ) -> None:
        self._table = table
        self._script = script
        self._columns = list(columns)
        self._place = 0

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._table.wakes.append(wake)

    def position(self) -> Token:
        return {"place": self._place}

    def seek(self, token: Token) -> None:
        self._place = token["place"]

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        if self._place == len(self._script):
            return END
        entry = self._script[self._place]
        if entry is HOLD and not self._table.is_released:
            return Pause()
        self._place += 1
        if entry is HOLD:
            return self.read()
        if entry is IDLE:
            self._wake()
            return Pause(is_idle=True)
        if isinstance(entry, EventTimeMark):
            return entry
        return entry.select(self._columns) if self._columns else empty_columns(entry.num_rows)
