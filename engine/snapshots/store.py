"""Stores of snapshots: the interface, and a store in memory."""

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
"""A pseudo-vertex: its rows are the names of the vertices that have ended."""

SIGNATURES = "\0meanings"
"""A pseudo-vertex: its rows are the names of vertices, and their state signatures in the plan that
took the snapshot."""

NO_VERTICES = (ENDED, SIGNATURES)

VertexState = tuple[str, pa.RecordBatch]
"""The name of a vertex and rows of its state."""


@frozen
class SnapshotSize:
    """The size of a snapshot.

    rows: number of rows of state.
    bytes: size of its sections.
    bytes_written: the same without sections that it shares with an earlier snapshot.
    """

    rows: int
    bytes: int
    bytes_written: int


Outcome = SnapshotSize | Exception
"""The outcome of a snapshot: its size if it is durable, otherwise the error."""


class StateReader(Protocol):
    """A reader of the state in snapshots: a store, or a converter for another plan."""

    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        """The rows of one vertex in a completed snapshot."""
        ...


class SnapshotStore(ABC):
    """Stores the snapshots of one job. Thread-safe; only `completed`, `read`, `vertices` and
    `close` may block."""

    on_room: Callable[[], None] | None = None
    """Called, from any thread, when `write` has refused rows and there is room again."""

    @property
    @abstractmethod
    def completed(self) -> int | None:
        """The last snapshot that is durable and undamaged. Waits for a snapshot that is being
        completed."""

    @property
    @abstractmethod
    def last_id(self) -> int:
        """The largest number used so far. Later snapshots must have larger numbers, because sinks
        identify their commits by them."""

    @abstractmethod
    def write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> bool:
        """Adds rows of state, which must not change afterwards. False: there is no room; offer them
        again after `on_room`."""

    @abstractmethod
    def complete(
        self, snapshot_id: int, more: Sequence[VertexState], on_done: Callable[[Outcome], None]
    ) -> None:
        """Completes the snapshot, with `more` rows; it is then the one to restore from, and older
        ones may be removed. `on_done` is called once, perhaps by another thread. A snapshot that
        failed is discarded."""

    @abstractmethod
    def give_up(self, snapshot_id: int) -> None:
        """Discards a snapshot that was not completed."""

    @abstractmethod
    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        """The rows of one vertex in a completed snapshot."""

    @abstractmethod
    def vertices(self, snapshot_id: int) -> Sequence[str]:
        """The vertices with rows in a completed snapshot."""

    @abstractmethod
    def pin(self) -> AbstractContextManager[None]:
        """Inside, no completed snapshot is removed, even if later ones are completed: for reading a
        snapshot while the job runs."""

    passed_over: str | None = None
    """If `completed` is older than the newest snapshot: which snapshots were skipped because they
    are damaged; otherwise None."""

    def recheck(self) -> None:
        """Called before a job is restored: `completed` checks again whether snapshots are
        damaged."""

    def remove_all(self) -> None:
        """Removes all snapshots of a job that needs them no longer; while they are pinned, when the
        last pin is released. A store in memory is released with its job."""

    def close(self) -> None:
        """Waits until everything is written. The store may be used again afterwards."""


class MemorySnapshotStore(SnapshotStore):
    """Stores the last completed snapshot in memory; while it is pinned, also all that were
    completed meanwhile."""

    def __init__(self) -> None:
        self._completed: int | None = None
        self._last_id = 0
        self._lock = Lock()
        self._rows: dict[int, dict[str, list[pa.RecordBatch]]] = {}
        self._safe: dict[int, dict[str, list[pa.RecordBatch]]] = {}
        self._pins = 0

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
                if vertex != SIGNATURES
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
    def pin(self) -> Iterator[None]:
        with self._lock:
            self._pins += 1
        try:
            yield
        finally:
            with self._lock:
                self._pins -= 1
                self._remove_old()

    def _remove_old(self) -> None:
        if not self._pins:
            self._safe = {
                number: rows for number, rows in self._safe.items() if number == self._completed
            }


def share_of(batch: pa.RecordBatch, index: int, parallelism: int) -> pa.RecordBatch:
    """The rows of state for processor `index`: the rows of its keys, or all rows without keys. With
    an unchanged parallelism each processor gets the rows that it saved, without hashing."""
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
