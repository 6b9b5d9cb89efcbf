"""A job of one sink that is killed again and again: what comes out must be each row once.

The source is a list of rows, of which a snapshot holds how many were read. Whatever the process did
is undone by a crash, but not what its sink made safe; a crash calls no `close`. All is drawn from a
seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from runnel.connector import Sink
from runnel.processors.sinks.durable_write import DurableWrite
from tests.processors.places import CollectingOutbox, job_context, place


class Crash(Exception):
    """The process is gone."""


class Inbox(list[pa.RecordBatch]):
    def peek(self) -> pa.RecordBatch | None:
        return self[0] if self else None

    def poll(self) -> pa.RecordBatch | None:
        return self.pop(0) if self else None


class SavingOutbox(CollectingOutbox):
    """Takes state too."""

    def __init__(self) -> None:
        super().__init__()
        self.state: list[pa.RecordBatch] = []

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        self.state.append(batch)
        return True


@dataclass(frozen=True)
class Snapshot:
    """What a completed snapshot holds."""

    read: int
    state: tuple[pa.RecordBatch, ...]


class CrashingJob:
    """`open_sink` gives the sink of a new execution, after a crash as a new process would."""

    def __init__(
        self,
        seed: int,
        rows: list[pa.RecordBatch],
        open_sink: Callable[[], Sink],
        crashes: float = 0.3,
    ) -> None:
        self._random = Random(seed)
        self._rows = rows
        self._open_sink = open_sink
        self._crash_rate = crashes
        self._snapshot: Snapshot | None = None
        self.crashes = 0

    def run(self) -> None:
        """Until all rows are written and committed."""
        while True:
            try:
                self._execute()
                return
            except Crash:
                self.crashes += 1

    def _may_crash(self) -> None:
        if self._random.random() < self._crash_rate / (1 + self.crashes / 40):
            raise Crash

    def _execute(self) -> None:
        self._ids = 0
        self._asked = False
        self._writer = DurableWrite(self._open_sink(), counts=True)
        self._outbox = SavingOutbox()
        context = place(job_context(request_snapshot=self._ask))[1]
        self._writer.init(self._outbox, context)
        self._read = 0
        if self._snapshot is not None:
            for batch in self._snapshot.state:
                self._writer.restore_snapshot(batch)
            self._may_crash()
            assert self._writer.finish_restore()
            self._read = self._snapshot.read
        while self._read < len(self._rows):
            self._may_crash()
            self._writer.process(0, Inbox([self._rows[self._read]]))
            self._read += 1
            if self._random.random() < 0.4:
                self._take_snapshot()
        while not self._is_complete():
            assert self._asked, "nothing would ever commit the last rows"
            self._asked = False
            self._take_snapshot()
        self._writer.close()

    def _is_complete(self) -> bool:
        self._writer._ask_at = 0  # time has passed since a snapshot failed
        return self._writer.complete()

    def _ask(self) -> None:
        self._asked = True

    def _take_snapshot(self) -> None:
        self._ids += 1
        self._outbox.state = []
        self._may_crash()
        assert self._writer.save_snapshot()
        assert self._writer.prepare_commit(self._ids)
        self._may_crash()
        fails = self._random.random() < 0.2
        if not fails:
            self._snapshot = Snapshot(self._read, tuple(self._outbox.state))
        self._may_crash()
        if self._read < len(self._rows) and self._random.random() < 0.5:
            # Rows behind the barrier may come before the commit.
            self._writer.process(0, Inbox([self._rows[self._read]]))
            self._read += 1
        assert self._writer.commit(self._ids, not fails)
        self._may_crash()

    @property
    def counted(self) -> int:
        """The number that the processor gave at the end."""
        return int(self._outbox.values[-1])
