"""Snapshots that users named: copies of a job's snapshot, from which a new job can start.

Each is a store of its own, `<directory>/snapshots/<number>/`, with a single snapshot, whose
manifest contains the name. A snapshot that replaces another one has a greater number, and is
complete before the old one is removed. To be removed, a folder is renamed first.
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

from runnel.base.clock import Clock
from runnel.base.frozen import frozen
from runnel.deadline import LONGEST_WAIT, current
from runnel.errors import ErrorCode, InterfaceError, OperationalError, ProgrammingError, suggest
from runnel.named_jobs.record.record import JobRecord
from runnel.snapshots.store import (
    NO_VERTICES,
    MemorySnapshotStore,
    Outcome,
    SnapshotSize,
    SnapshotStore,
)
from runnel.storage.durable_files import sync_folder
from runnel.storage.write_gate import durable_writes

if TYPE_CHECKING:
    from runnel.snapshots.file_store import FileSnapshotStore

logger = logging.getLogger("runnel.job")

_ID = 1
"""The number of the single snapshot in each store."""


@frozen
class NamedSnapshot:
    """A snapshot that a user named.

    name: its name.
    job: name of the job.
    query: query of the job.
    signatures: state signatures of the vertices of its plan.
    created: when it was made, in µs since the epoch (UTC).
    rows, bytes: its size.
    store: store that contains it.
    folder: folder of the store; None in memory.
    is_confined: the job was created by a caller with bounds.
    """

    name: str
    job: str
    query: str
    signatures: Mapping[str, str]
    created: int
    rows: int
    bytes: int
    store: SnapshotStore
    folder: Path | None
    is_confined: bool = False


class NamedSnapshots:
    """All named snapshots of a connection; in memory if `folder` is None. Thread-safe."""

    def __init__(
        self, folder: Path | None, clock: Clock, check: Callable[[], None] | None = None
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._check = check
        self._lock = RLock()
        self._unreadable: list[str] = []
        """Why some snapshots of the folder are not listed."""
        self._found: dict[str, NamedSnapshot] = {} if folder is None else self._load(folder)

    def all(self) -> list[NamedSnapshot]:
        """All, sorted by name."""
        with self._lock:
            return [self._found[key] for key in sorted(self._found)]

    def find(self, name: str) -> NamedSnapshot | None:
        return self._found.get(name.lower())

    def get(self, name: str) -> NamedSnapshot:
        """The snapshot with that name; ProgrammingError if there is none."""
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
        """ProgrammingError if a snapshot has that name."""
        found = self.find(name)
        if found is not None:
            raise ProgrammingError(
                f'snapshot "{found.name}" exists already',
                hint="use CREATE OR REPLACE SNAPSHOT, or take another name",
            )

    def export(
        self, name: str, record: JobRecord, source: SnapshotStore, snapshot_id: int | None
    ) -> None:
        """Copies a snapshot of a job, which must be pinned in its store, under a name; replaces a
        snapshot of that name."""
        if snapshot_id is None:
            raise OperationalError(
                f'job "{record.name}" has no snapshot',
                code=ErrorCode.GENERIC,
                hint="it has never run long enough for one",
            )
        signatures = record.signatures
        about = {
            "name": name,
            "job": record.name,
            "query": record.query,
            "meanings": json.dumps(dict(signatures)),
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
            signatures,
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
            # A folder that cannot be removed now is removed when the directory is opened next: of
            # two with one name the later counts.
            with suppress(OSError):
                _remove(old.folder)

    def load_into(self, name: str, target: SnapshotStore) -> Mapping[str, str]:
        """Copies a snapshot into the store of a new job; returns its state signatures by vertex."""
        found = self.get(name)
        _copy(found.store, _ID, target)
        return found.signatures

    def drop(self, name: str, if_exists: bool = False) -> None:
        """Removes a snapshot and its files. If there is none of that name, does nothing if
        `if_exists`."""
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
        """A new, empty folder for one snapshot; None in memory."""
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
                f'snapshot "{name}" can\'t be stored in "{folder}"',
                detail=error.strerror or str(error),
                hint="make room on the disk and try again",
            ) from error
        return made

    def _load(self, folder: Path) -> dict[str, NamedSnapshot]:
        """Loads the snapshots of the folder. Of two with one name the later counts; incomplete ones
        are removed."""
        from runnel.snapshots.file_store import FileSnapshotStore, numbered

        found: dict[str, NamedSnapshot] = {}
        if not folder.is_dir():
            return found
        for gone in folder.glob(".*"):
            shutil.rmtree(gone, ignore_errors=True)
        for item in sorted(
            (entry for entry in folder.iterdir() if entry.name.isdecimal()),
            key=lambda entry: int(entry.name),
        ):
            if not any(numbered(item, "")):
                shutil.rmtree(item, ignore_errors=True)
                continue
            store = FileSnapshotStore(item)
            try:
                info = store.newest_info()
            except OperationalError as error:
                logger.warning(
                    "a named snapshot is skipped, as it can't be read: %s", error.message
                )
                self._unreadable.append(error.message)
                continue
            about = info.about
            name = about.get("name", item.name)
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
                item,
                about.get("confined") == "true",
            )
        return found


def _linked(
    source: FileSnapshotStore, snapshot_id: int, folder: Path, about: dict[str, str]
) -> tuple[SnapshotStore, SnapshotSize]:
    """The store of a copy that shares its files with the job's snapshot, if the file system can do
    that. If it raises, the folder is removed."""
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
    """A copy that another thread makes in a folder. The folder is removed if the copy fails, or if
    the statement no longer waits for it: in that case when the thread is done with it, because
    until then no other copy may use its number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wake = Event()
        self._lock = Lock()
        self._is_done = self._is_cancelled = False
        self._failure: Exception | None = None

    def hear(self, failure: Exception | None) -> None:
        """The copy is done, or failed."""
        with self._lock:
            self._failure, self._is_done = failure, True
            is_cancelled = self._is_cancelled
        self._wake.set()
        if is_cancelled:
            self.remove()

    def wait(self) -> None:
        """Waits for the copy and raises its error; OperationalError if the statement is cancelled
        or times out meanwhile."""
        deadline = current()
        with deadline.on_cancel(self._wake.set):
            self._wake.wait(deadline.left(LONGEST_WAIT))
        with self._lock:
            self._is_cancelled = not self._is_done
        if self._is_cancelled:
            deadline.check()
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
    """InterfaceError if `name` cannot be the name of a snapshot."""
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
    """Removes a folder; OSError if it remains. Files that remain after the renaming are removed
    when the directory is opened next."""
    if folder is not None:
        gone = folder.with_name("." + folder.name)
        with durable_writes:
            folder.rename(gone)
            sync_folder(folder.parent)
        shutil.rmtree(gone, ignore_errors=True)
