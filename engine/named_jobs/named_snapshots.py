"""Snapshots that users named: copies of a job's snapshot, for a new job to begin with.

Each is a store of its own, `<directory>/snapshots/<number>/`, that holds one snapshot, whose
manifest has the name. One that takes the place of another has a greater number, and is complete
before the other goes. What is to go loses its name first.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, RLock
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.deadline import LONGEST_WAIT, current
from runnel.errors import ErrorCode, InterfaceError, OperationalError, ProgrammingError, suggest
from runnel.named_jobs.record.record import JobRecord
from runnel.runtime.threads.clock import Clock
from runnel.snapshots.store import (
    NO_VERTICES,
    MemorySnapshotStore,
    Outcome,
    SnapshotSize,
    SnapshotStore,
)
from runnel.storage.durable_files import sync_folder

if TYPE_CHECKING:
    from runnel.snapshots.file_store import FileSnapshotStore

logger = logging.getLogger("runnel.job")

_ID = 1
"""The number of the one snapshot in each store."""


@frozen
class NamedSnapshot:
    """One of them: its name, that of its job, the query of that and what the vertices of its plan
    are for, when it was made (µs since the epoch, UTC), and its size. `is_confined`: the job's
    caller had bounds."""

    name: str
    job: str
    query: str
    meanings: Mapping[str, str]
    created: int
    rows: int
    bytes: int
    store: SnapshotStore
    folder: Path | None
    is_confined: bool = False


class NamedSnapshots:
    """All of a connection; in memory where `folder` is None. Safe for threads."""

    def __init__(
        self, folder: Path | None, clock: Clock, check: Callable[[], None] | None = None
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._check = check
        self._lock = RLock()
        self._unreadable: list[str] = []
        """Why some of the folder are left out."""
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
            hint = (
                "SHOW SNAPSHOTS lists them"
                if names
                else "there is none: CREATE SNAPSHOT name FOR JOB job"
            )
            unreadable = "; ".join(self._unreadable)
            raise ProgrammingError(
                f'snapshot "{name}" not found',
                code=ErrorCode.OBJECT_NOT_FOUND,
                detail=f"others can't be read: {unreadable}" if unreadable else None,
                hint=suggest(name, names, hint),
            )
        return found

    def check_free(self, name: str) -> None:
        """ProgrammingError where there is one of that name."""
        found = self.find(name)
        if found is not None:
            raise ProgrammingError(
                f'snapshot "{found.name}" exists already',
                hint="use CREATE OR REPLACE SNAPSHOT, or take another name",
            )

    def export(
        self, name: str, record: JobRecord, source: SnapshotStore, snapshot_id: int | None
    ) -> None:
        """Copies a snapshot of a job, whose store must hold it, and gives it the name, which is
        taken from one that has it."""
        if snapshot_id is None:
            raise OperationalError(
                f'job "{record.name}" has no snapshot',
                code=ErrorCode.GENERIC,
                hint="it has never run long enough for one",
            )
        meanings = record.meanings
        about = {
            "name": name,
            "job": record.name,
            "query": record.query,
            "meanings": json.dumps(dict(meanings)),
        }
        if record.is_confined:
            about["confined"] = "true"
        folder = self._new_folder(name)
        store: SnapshotStore
        if folder is None:
            store = MemorySnapshotStore()
            size = _copy(source, snapshot_id, store)
        else:
            store, size = _linked(source, snapshot_id, folder, about)  # type: ignore[arg-type]
        made = NamedSnapshot(
            name,
            record.name,
            record.query,
            meanings,
            self._clock.wall(),
            size.rows,
            size.bytes,
            store,
            folder,
            record.is_confined,
        )
        with self._lock:
            old = self._found.get(name.lower())
            self._found[name.lower()] = made
        if old is not None:
            # What can't be removed now goes when the directory is opened: the later one counts.
            with suppress(OSError):
                _remove(old.folder)

    def load_into(self, name: str, target: SnapshotStore) -> Mapping[str, str]:
        """Copies it into the store of a job that is to begin with it; gives the meanings of its
        vertices."""
        found = self.get(name)
        _copy(found.store, _ID, target)
        return found.meanings

    def drop(self, name: str, if_exists: bool = False) -> None:
        """Forgets one, and its files; nothing where there is none and there need be none."""
        with self._lock:
            if if_exists and self.find(name) is None:
                return
            found = self.get(name)
            try:
                _remove(found.folder)
            except OSError as error:
                raise OperationalError(
                    f'snapshot "{found.name}" can\'t be removed',
                    detail=error.strerror or str(error),
                ) from error
            del self._found[name.lower()]

    def _new_folder(self, name: str) -> Path | None:
        """A folder for one more, which nobody else takes; None in memory."""
        folder = self._folder
        if folder is None:
            return None
        if self._check is not None:
            self._check()
        try:
            with self._lock:
                is_new = not folder.is_dir()
                taken = (
                    [int(item.name) for item in folder.iterdir() if item.name.isdecimal()]
                    if not is_new
                    else []
                )
                made = folder / str(max(taken, default=0) + 1)
                made.mkdir(parents=True)
            sync_folder(folder)
            if is_new:
                sync_folder(folder.parent)
        except OSError as error:
            raise OperationalError(
                f'snapshot "{name}" can\'t be kept in "{folder}"',
                detail=error.strerror or str(error),
                hint="make room on the disk and try again",
            ) from error
        return made

    def _load(self, folder: Path) -> dict[str, NamedSnapshot]:
        """What the folder has. Of two of one name the later counts; what isn't complete goes."""
        from runnel.snapshots.copying import numbered
        from runnel.snapshots.file_store import FileSnapshotStore

        found: dict[str, NamedSnapshot] = {}
        if not folder.is_dir():
            return found
        for gone in folder.glob(".*"):
            shutil.rmtree(gone, ignore_errors=True)
        for place in sorted(
            (item for item in folder.iterdir() if item.name.isdecimal()),
            key=lambda item: int(item.name),
        ):
            if not any(numbered(place, "")):
                shutil.rmtree(place, ignore_errors=True)
                continue
            store = FileSnapshotStore(place)
            try:
                info = store.newest_info()
            except OperationalError as error:
                logger.warning(
                    "a named snapshot is left out, as it can't be read: %s", error.message
                )
                self._unreadable.append(error.message)
                continue
            about = info.about
            name = about.get("name", place.name)
            old = found.get(name.lower())
            if old is not None:
                with suppress(OSError):
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
                about.get("confined") == "true",
            )
        return found


def _linked(
    source: FileSnapshotStore, snapshot_id: int, folder: Path, about: dict[str, str]
) -> tuple[SnapshotStore, SnapshotSize]:
    """The store of a copy that shares its files with the job's snapshot where the file system can
    do that. Where it raises, the folder goes."""
    from runnel.snapshots.file_store import FileSnapshotStore

    copy = _Copy(folder)
    source.export(snapshot_id, folder, about, copy.hear)
    copy.wait()
    try:
        store = FileSnapshotStore(folder, about)
        manifest = store.manifest(_ID)
    except BaseException:
        copy.remove()
        raise
    return store, SnapshotSize(manifest.rows, manifest.bytes, 0)


class _Copy:
    """A copy that another thread makes in a folder. The folder goes where the copy fails, or where
    the statement no longer waits for it: then when the thread is done with it, as until then no
    other copy may have its number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wake = Event()
        self._lock = Lock()
        self._is_done = self._is_given_up = False
        self._failure: Exception | None = None

    def hear(self, failure: Exception | None) -> None:
        """It is done, or failed."""
        with self._lock:
            self._failure, self._is_done = failure, True
            is_given_up = self._is_given_up
        self._wake.set()
        if is_given_up:
            self.remove()

    def wait(self) -> None:
        """Raises what the copy failed with; OperationalError where the statement is cancelled or
        times out meanwhile."""
        patience = current()
        with patience.telling(self._wake.set):
            self._wake.wait(patience.left(LONGEST_WAIT))
        with self._lock:
            self._is_given_up = not self._is_done
        if self._is_given_up:
            patience.check()
            raise OperationalError(
                "the statement timed out while its snapshot was copied",
                code=ErrorCode.TIMEOUT,
                hint="give it more time",
            )
        if self._failure is not None:
            self.remove()
            raise self._failure

    def remove(self) -> None:
        with suppress(OSError):
            _remove(self._folder)


def check_name(name: Any) -> None:
    """InterfaceError for what can't be the name of a snapshot."""
    if not isinstance(name, str) or not name:
        raise InterfaceError(f"the name of a snapshot is a str that isn't empty, not {name!r}")


def _copy(source: SnapshotStore, snapshot_id: int, target: SnapshotStore) -> SnapshotSize:
    for vertex in (*NO_VERTICES, *source.vertices(snapshot_id)):
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
    """OSError where it stays. What is left of one that is gone is removed when the directory is
    opened next."""
    if folder is not None:
        gone = folder.with_name("." + folder.name)
        folder.rename(gone)
        sync_folder(folder.parent)
        shutil.rmtree(gone, ignore_errors=True)
