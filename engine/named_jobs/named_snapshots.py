"""Snapshots that users named: copies of a job's snapshot, for a new job to begin with.

Each is a store of its own, `<directory>/snapshots/<number>/`, that holds one snapshot, whose manifest has the name. One that
takes the place of another has a greater number, and is complete before the other goes.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from threading import RLock

from runnel.errors import ErrorCode, OperationalError, ProgrammingError, suggest
from runnel.frozen import frozen
from runnel.named_jobs.record import JobRecord
from runnel.runtime.clock import Clock
from runnel.snapshots.store import MemorySnapshotStore, Outcome, SnapshotSize, SnapshotStore

logger = logging.getLogger("runnel.job")

_ID = 1
"""The number of the one snapshot in each store."""


@frozen
class NamedSnapshot:
    """One of them: its name, that of its job, the query of that and what the vertices of its plan are for, when it was made (µs
    since the epoch, UTC), and its size."""

    name: str
    job: str
    query: str
    meanings: Mapping[str, str]
    created: int
    rows: int
    bytes: int
    store: SnapshotStore
    folder: Path | None


class NamedSnapshots:
    """All of a connection; in memory where `folder` is None. Safe for threads."""

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._lock = RLock()
        self._found: dict[str, NamedSnapshot] = {} if folder is None else self._load(folder)

    def all(self) -> list[NamedSnapshot]:
        """By name."""
        with self._lock:
            return [self._found[key] for key in sorted(self._found)]

    def find(self, name: str) -> NamedSnapshot | None:
        return self._found.get(name.lower())

    def get(self, name: str) -> NamedSnapshot:
        """The one of that name; ProgrammingError where there is none."""
        found = self.find(name)
        if found is None:
            names = [item.name for item in self.all()]
            hint = "SHOW SNAPSHOTS lists them" if names else "there is none: CREATE SNAPSHOT name FOR JOB job"
            raise ProgrammingError(
                f'snapshot "{name}" not found', code=ErrorCode.OBJECT_NOT_FOUND, hint=suggest(name, names, hint)
            )
        return found

    def check_free(self, name: str) -> None:
        """ProgrammingError where there is one of that name."""
        found = self.find(name)
        if found is not None:
            raise ProgrammingError(
                f'snapshot "{found.name}" exists already', hint="use CREATE OR REPLACE SNAPSHOT, or take another name"
            )

    def export(self, name: str, record: JobRecord, source: SnapshotStore, snapshot_id: int | None) -> None:
        """Copies a snapshot of a job and gives it the name, which is taken from one that has it."""
        if snapshot_id is None:
            raise OperationalError(
                f'job "{record.name}" has no snapshot', code=ErrorCode.GENERIC, hint="it has never run long enough for one"
            )
        meanings = record.meanings
        about = {"name": name, "job": record.name, "query": record.query, "meanings": json.dumps(dict(meanings))}
        folder = None if self._folder is None else self._folder / str(self._next_number(self._folder))
        store = _store(folder, about)
        try:
            size = _copy(source, snapshot_id, store)
        except BaseException:
            store.close()
            _remove(folder)
            raise
        made = NamedSnapshot(
            name, record.name, record.query, meanings, self._clock.wall(), size.rows, size.bytes, store, folder
        )
        with self._lock:
            old = self._found.get(name.lower())
            self._found[name.lower()] = made
        if old is not None:
            old.store.close()
            _remove(old.folder)

    def load_into(self, name: str, target: SnapshotStore) -> Mapping[str, str]:
        """Copies it into the store of a job that is to begin with it; gives the meanings of its vertices."""
        found = self.get(name)
        _copy(found.store, _ID, target)
        return found.meanings

    def drop(self, name: str) -> None:
        """Forgets one, and its files."""
        with self._lock:
            found = self.get(name)
            del self._found[name.lower()]
        found.store.close()
        _remove(found.folder)

    def _next_number(self, folder: Path) -> int:
        taken = [int(item.name) for item in folder.iterdir() if item.name.isdecimal()] if folder.is_dir() else []
        return max(taken, default=0) + 1

    def _load(self, folder: Path) -> dict[str, NamedSnapshot]:
        """What the folder has. Of two of one name the later counts; what isn't complete goes."""
        from runnel.snapshots.file_store import FileSnapshotStore

        found: dict[str, NamedSnapshot] = {}
        if not folder.is_dir():
            return found
        for place in sorted((item for item in folder.iterdir() if item.name.isdecimal()), key=lambda item: int(item.name)):
            store = FileSnapshotStore(place)
            infos = store.infos()
            if not infos:
                logger.warning("the named snapshot in %s is damaged, or was never completed: it is left out", place)
                continue
            info = infos[-1]
            about = info.about
            name = about.get("name", place.name)
            old = found.get(name.lower())
            if old is not None:
                _remove(old.folder)
            found[name.lower()] = NamedSnapshot(
                name,
                about.get("job", ""),
                about.get("query", ""),
                json.loads(about.get("meanings", "{}")),
                info.created,
                info.rows,
                info.bytes,
                store,
                place,
            )
        return found


def _store(folder: Path | None, about: dict[str, str]) -> SnapshotStore:
    if folder is None:
        return MemorySnapshotStore()
    from runnel.snapshots.file_store import FileSnapshotStore

    return FileSnapshotStore(folder, about)


def _copy(source: SnapshotStore, snapshot_id: int, target: SnapshotStore) -> SnapshotSize:
    for vertex in source.vertices(snapshot_id):
        for batch in source.read(snapshot_id, vertex):
            while not target.write(_ID, vertex, batch):
                target.close()
    outcomes: list[Outcome] = []
    target.complete(_ID, (), outcomes.append)
    target.close()
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]
    return outcomes[0]


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
