"""Where snapshots are kept: the interface, and a store in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Protocol

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.key_hash import KEY_METADATA, SAVER_METADATA, partition
from runnel.errors import OperationalError

ENDED = ""
"""Stands for a vertex: its rows are the names of the vertices that have ended."""

MEANINGS = "\0meanings"
"""Stands for a vertex: its rows are the names of vertices, and what each is for in the plan that
took the snapshot."""

NO_VERTICES = (ENDED, MEANINGS)

VertexState = tuple[str, pa.RecordBatch]
"""Rows of state and the name of the vertex that they are of."""


@frozen
class SnapshotSize:
    """How much a snapshot holds. `bytes_written` leaves out what it shares with an earlier one."""

    rows: int
    bytes: int
    bytes_written: int


Outcome = SnapshotSize | Exception
"""What became of a snapshot: it is safe, or why it isn't."""


class StateReader(Protocol):
    """Who gives the state of a vertex in a snapshot: a store, or somebody who makes another plan's
    of it."""

    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        """The rows of one vertex in a completed snapshot."""
        ...


class SnapshotStore(ABC):
    """Keeps the snapshots of one job. Safe for threads; only `completed`, `read`, `vertices` and
    `close` may block."""

    on_room: Callable[[], None] | None = None
    """Called, from any thread, when `write` refused something and would take it now."""

    @property
    @abstractmethod
    def completed(self) -> int | None:
        """The last snapshot that is safe and sound. Waits for one that is just being completed."""

    @property
    @abstractmethod
    def last_id(self) -> int:
        """No snapshot to come may have this number or a smaller one: sinks know what they have
        committed by it."""

    @abstractmethod
    def write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> bool:
        """Takes rows of state, which don't change any more. False: not now, offer them again after
        `on_room`."""

    @abstractmethod
    def complete(
        self, snapshot_id: int, more: Sequence[VertexState], on_done: Callable[[Outcome], None]
    ) -> None:
        """Makes the snapshot, with `more` rows, the one to restore from; older ones may go then.
        `on_done` is called once, perhaps by another thread. A snapshot that failed is forgotten."""

    @abstractmethod
    def give_up(self, snapshot_id: int) -> None:
        """Forgets a snapshot that wasn't completed."""

    @abstractmethod
    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        """The rows of one vertex in a completed snapshot."""

    @abstractmethod
    def vertices(self, snapshot_id: int) -> Sequence[str]:
        """The vertices that a completed snapshot has rows of."""

    @abstractmethod
    def hold(self) -> AbstractContextManager[None]:
        """Inside no completed snapshot goes, however many come: for who reads one while the job
        runs."""

    passed_over: str | None = None
    """Which snapshots the one that is `completed` stands in for, as they are damaged; None where
    none is."""

    def recheck(self) -> None:
        """A job is to be restored: `completed` looks again at whether what is kept is sound."""

    def close(self) -> None:
        """Waits until everything that was given is written. May be used again after it."""


class MemorySnapshotStore(SnapshotStore):
    """Keeps the last completed snapshot in memory, and while it is held all that were completed
    meanwhile."""

    def __init__(self) -> None:
        self._completed: int | None = None
        self._last_id = 0
        self._lock = Lock()
        self._rows: dict[int, dict[str, list[pa.RecordBatch]]] = {}
        self._safe: dict[int, dict[str, list[pa.RecordBatch]]] = {}
        self._holders = 0

    @property
    def completed(self) -> int | None:
        return self._completed

    @property
    def last_id(self) -> int:
        return self._last_id

    def write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> bool:
        with self._lock:
            self._last_id = max(self._last_id, snapshot_id)
            self._rows.setdefault(snapshot_id, {}).setdefault(vertex, []).append(batch)
        return True

    def complete(
        self, snapshot_id: int, more: Sequence[VertexState], on_done: Callable[[Outcome], None]
    ) -> None:
        for vertex, batch in more:
            self.write(snapshot_id, vertex, batch)
        with self._lock:
            self._last_id = max(self._last_id, snapshot_id)
            self._safe[snapshot_id] = self._rows.pop(snapshot_id, {})
            self._completed = snapshot_id
            self._remove_old()
            batches = [
                batch
                for vertex, rows in self._safe[snapshot_id].items()
                if vertex != MEANINGS
                for batch in rows
            ]
            size = sum(batch.nbytes for batch in batches)
        on_done(SnapshotSize(sum(batch.num_rows for batch in batches), size, size))

    def give_up(self, snapshot_id: int) -> None:
        with self._lock:
            self._rows.pop(snapshot_id, None)

    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        with self._lock:
            if snapshot_id not in self._safe:
                raise no_such_snapshot(snapshot_id)
            return tuple(self._safe[snapshot_id].get(vertex, ()))

    def vertices(self, snapshot_id: int) -> Sequence[str]:
        with self._lock:
            if snapshot_id not in self._safe:
                raise no_such_snapshot(snapshot_id)
            return [vertex for vertex in self._safe[snapshot_id] if vertex not in NO_VERTICES]

    @contextmanager
    def hold(self) -> Iterator[None]:
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                self._remove_old()

    def _remove_old(self) -> None:
        if not self._holders:
            self._safe = {
                number: rows for number, rows in self._safe.items() if number == self._completed
            }


def share_of(batch: pa.RecordBatch, index: int, parallelism: int) -> pa.RecordBatch:
    """The rows of state that processor `index` is to have: those of its keys, or all where they
    belong to none. As many processors as there were have what they had: that needn't be divided
    anew."""
    metadata = batch.schema.metadata or {}
    keys = metadata.get(KEY_METADATA)
    if keys is None or parallelism == 1:
        return batch
    saver, _, savers = metadata.get(SAVER_METADATA, b"").partition(b"/")
    if savers and int(savers) == parallelism:
        return batch if int(saver) == index else batch.slice(0, 0)
    columns = [batch.schema.get_field_index(name) for name in keys.decode().split("\n")]
    return partition(batch, columns, parallelism)[index]


def no_such_snapshot(snapshot_id: int) -> OperationalError:
    return OperationalError(
        f"there is no snapshot {snapshot_id}", hint="restore from the last completed one"
    )
