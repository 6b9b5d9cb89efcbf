"""A source that follows a script, in which it pauses, fails and ends as real sources do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from threading import Lock

import pyarrow as pa

from runnel.connector import END, End, Pause, Source, SourcePartition
from runnel.errors import OperationalError
from runnel.processor import JobContext


class Cue(Enum):
    """An entry of a script that is not a batch.

    EOF: the partition ends; the next execution reads the entries after it.
    ABORT: reading fails with an OperationalError, once; the next execution skips it.
    PAUSE: the partition pauses until `ScriptedSource.resume`, which ends one pause.
    """

    EOF = "EOF"
    ABORT = "ABORT"
    PAUSE = "PAUSE"


EOF = Cue.EOF
ABORT = Cue.ABORT
PAUSE = Cue.PAUSE

Script = Sequence[pa.RecordBatch | Cue]


class ScriptedSource(Source):
    """One partition for each script. An execution starts at the beginning, or after the last EOF
    that an execution reached.

    `opened` and `closed` count the partitions' `open` and `close`.
    """

    def __init__(self, *scripts: Script, cooperative: bool = True) -> None:
        self.cooperative = cooperative
        self.opened = 0
        self.closed = 0
        self._scripts = [list(script) for script in scripts]
        self._lock = Lock()
        self._resumed = 0
        self._wakes: list[Callable[[], None]] = []

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [ScriptedPartition(self, script) for script in self._scripts]

    def resume(self) -> None:
        """Lets every partition pass one more PAUSE. Thread-safe."""
        with self._lock:
            self._resumed += 1
            wakes = list(self._wakes)
        for wake in wakes:
            wake()

    @property
    def resumed(self) -> int:
        return self._resumed

    def partition_opened(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self.opened += 1
            self._wakes.append(wake)

    def partition_closed(self, wake: Callable[[], None] | None) -> None:
        with self._lock:
            self.closed += 1
            if wake is not None:
                self._wakes.remove(wake)


class ScriptedPartition(SourcePartition):
    """Reads one script; created by `ScriptedSource.split`."""

    def __init__(self, source: ScriptedSource, script: list[pa.RecordBatch | Cue]) -> None:
        self._source = source
        self._script = script
        self._position = 0
        self._pauses = 0
        self._ended = False
        self._wake: Callable[[], None] | None = None

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._source.partition_opened(wake)

    def read(self) -> pa.RecordBatch | Pause | End:
        if self._ended or self._position == len(self._script):
            return END
        entry = self._script[self._position]
        if entry is PAUSE and self._pauses >= self._source.resumed:
            return Pause()
        self._position += 1
        if entry is PAUSE:
            self._pauses += 1
            return self.read()
        if entry is EOF:
            del self._script[: self._position]
            self._ended = True
            return END
        if entry is ABORT:
            del self._script[self._position - 1]
            raise OperationalError("the script says ABORT")
        return entry

    def close(self) -> None:
        self._source.partition_closed(self._wake)
