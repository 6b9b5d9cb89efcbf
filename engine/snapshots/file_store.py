"""Snapshots of one job in a folder on disk.

    7/                 a completed snapshot; the name is its number
      manifest.json    the sections of its files, with checksums
      state.arrows     Arrow streams, one after another
      state-5.arrows   the file of snapshot 5, of which some state has not changed since
    .8/                a snapshot that is being written, or the rest of one

A snapshot gets its name when all of it is on the disk. The last two snapshots are retained, so that
the older one can be used if the newer one is damaged. Older snapshots are removed when the next
snapshot is complete. A copy of a snapshot outlives the job.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock

import pyarrow as pa

from runnel.base.clock import SYSTEM_CLOCK
from runnel.errors import ErrorCode, OperationalError
from runnel.snapshots.background import MOST_BYTES, Background
from runnel.snapshots.disk import Disk
from runnel.snapshots.manifest import DamagedError, SnapshotManifest
from runnel.snapshots.reading import check_snapshot, read_state
from runnel.snapshots.retained_state import RetainedState
from runnel.snapshots.store import (
    NO_VERTICES,
    Outcome,
    SnapshotSize,
    SnapshotStore,
    VertexState,
    no_such_snapshot,
)
from runnel.snapshots.unfinished import Labels, UnfinishedSnapshot, write_manifest

logger = logging.getLogger("runnel.snapshots")

RETAINED = 2
"""Number of undamaged snapshots that are retained."""


class FileSnapshotStore(SnapshotStore):
    """The snapshots of one job in `folder`. `about` is stored in every manifest: properties of the
    job, chosen by the owner; `wall` returns the time, in µs since 1970."""

    def __init__(
        self,
        folder: Path,
        about: Mapping[str, str] | None = None,
        *,
        disk: Disk | None = None,
        most_bytes: int = MOST_BYTES,
        wall: Callable[[], int] = SYSTEM_CLOCK.wall,
    ) -> None:
        self._folder = folder
        self._about = dict(about or {})
        self._disk = disk or Disk()
        self._wall = wall
        self._lock = Lock()
        self._thread = Background(f"runnel-snapshots-{folder.parent.name}", most_bytes)
        self._thread.on_room = self._room
        self._retained = RetainedState()
        self._unfinished: dict[int, UnfinishedSnapshot] = {}
        self._failed: dict[int, Exception] = {}
        self._sound: dict[int, SnapshotManifest] = {}
        self._damaged: set[int] = set()
        self._found = sorted(numbered(folder, ""))
        self._last_id = max((*self._found, *numbered(folder, ".")), default=0)
        self._completed: int | None = None
        self._is_checked = False
        self._pins = 0
        self._is_obsolete = False
        self._remove_unfinished()

    # Existing snapshots

    @property
    def completed(self) -> int | None:
        """The last snapshot that is undamaged: the checksums are verified at the first call, and
        after `recheck`. Damaged ones are logged and skipped. Waits for a snapshot that is being
        completed."""
        self._thread.wait()
        with self._lock:
            if not self._is_checked:
                self._completed = self._newest_sound()
                self._is_checked = True
            return self._completed

    @property
    def last_id(self) -> int:
        return self._last_id

    def infos(self) -> list[SnapshotManifest]:
        """The manifests of the retained snapshots, oldest first, without damaged ones."""
        found = []
        with self._lock:
            for number in self._found:
                if number in self._damaged:
                    continue
                with suppress(DamagedError):
                    found.append(
                        self._sound.get(number)
                        or check_snapshot(self._path(number), with_files=False)
                    )
        return found

    def newest_info(self) -> SnapshotManifest:
        """The manifest of the newest snapshot, without verifying its files. DamagedError if the
        manifest is not valid."""
        with self._lock:
            return check_snapshot(self._path(self._found[-1]), with_files=False)

    def vertices(self, snapshot_id: int) -> Sequence[str]:
        return [
            vertex for vertex in self.manifest(snapshot_id).vertices if vertex not in NO_VERTICES
        ]

    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        return read_state(self._path(snapshot_id), self.manifest(snapshot_id), vertex)

    def manifest(self, snapshot_id: int) -> SnapshotManifest:
        """The manifest of a snapshot. OperationalError if it does not exist or is damaged."""
        with self._lock:
            if snapshot_id not in self._found:
                raise no_such_snapshot(snapshot_id)
            if snapshot_id not in self._sound:
                self._sound[snapshot_id] = check_snapshot(self._path(snapshot_id))
            return self._sound[snapshot_id]

    def recheck(self) -> None:
        self._thread.wait()
        with self._lock:
            self._is_checked = False
            self._sound.clear()
            # The next snapshot must not be linked to files of a snapshot that may be damaged.
            self._retained = RetainedState()

    def _newest_sound(self) -> int | None:
        self._damaged.clear()
        self.passed_over = None
        for number in reversed(self._found):
            try:
                self._sound[number] = check_snapshot(self._path(number))
            except DamagedError as error:
                self._damaged.add(number)
                message = f"snapshot {number} can't be used: {error.message}"
                self.passed_over = self.passed_over or message
                logger.warning("%s", message)
                continue
            if self._damaged:
                logger.warning(
                    "snapshot %d is used instead: what came after it is done again, also where a "
                    "sink has it already",
                    number,
                )
            return number
        if self._damaged:
            raise OperationalError(
                f'none of the {len(self._damaged)} snapshots in "{self._folder}" can be used: '
                "all are damaged",
                code=ErrorCode.GENERIC,
                detail=self.passed_over,
                hint=(
                    "the log says which files; restore them from a backup, "
                    "or drop the job and create it again"
                ),
            )
        return None

    # Writing

    def write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> bool:
        self._last_id = max(self._last_id, snapshot_id)
        return self._thread.post(lambda: self._write(snapshot_id, vertex, batch), batch.nbytes + 1)

    def complete(
        self, snapshot_id: int, more: Sequence[VertexState], on_done: Callable[[Outcome], None]
    ) -> None:
        self._last_id = max(self._last_id, snapshot_id)
        self._thread.post(lambda: on_done(self._complete(snapshot_id, more)))

    def give_up(self, snapshot_id: int) -> None:
        self._thread.post(lambda: self._give_up(snapshot_id))

    def export(
        self,
        snapshot_id: int,
        folder: Path,
        about: Mapping[str, str],
        on_done: Callable[[Exception | None], None],
    ) -> None:
        """Copies a completed snapshot to another folder, as the newest of that folder; older ones
        there are removed. `on_done` is called by the store's thread, with the error if it
        failed."""
        self._thread.post(lambda: on_done(self._export(snapshot_id, folder, about)))

    @contextmanager
    def pin(self) -> Iterator[None]:
        with self._lock:
            self._pins += 1
        try:
            yield
        finally:
            with self._lock:
                self._pins -= 1
                is_free = not self._pins and len(self._found) > RETAINED
                is_obsolete = not self._pins and self._is_obsolete
            if is_obsolete:
                self.remove_all()
            elif is_free:
                self._thread.post(self._remove_old)

    def remove_all(self) -> None:
        with self._lock:
            self._is_obsolete = True
            is_pinned = self._pins > 0
        self.close()
        if not is_pinned:
            shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        self._thread.close()

    def _write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> None:
        if snapshot_id in self._failed:
            return
        try:
            self._begun(snapshot_id).write(vertex, batch)
        except Exception as error:
            self._failed[snapshot_id] = error

    def _begun(self, snapshot_id: int) -> UnfinishedSnapshot:
        unfinished = self._unfinished.get(snapshot_id)
        if unfinished is None:
            if not self._folder.exists():
                self._disk.make_folder(self._folder)
                self._disk.sync_folder(self._folder.parent)
            folder = self._folder / f".{snapshot_id}"
            if folder.exists():
                self._disk.remove(folder)
            unfinished = self._unfinished[snapshot_id] = UnfinishedSnapshot(
                folder, self._disk, self._retained
            )
        return unfinished

    def _complete(self, snapshot_id: int, more: Sequence[VertexState]) -> Outcome:
        for vertex, batch in more:
            self._write(snapshot_id, vertex, batch)
        try:
            if snapshot_id in self._failed:
                raise self._failed[snapshot_id]
            unfinished = self._begun(snapshot_id)
            labels = Labels(snapshot_id, self._wall(), self._about)
            manifest = unfinished.finish(labels, self._path(snapshot_id))
        except Exception as error:
            self._give_up(snapshot_id)
            return self._story(snapshot_id, error)
        del self._unfinished[snapshot_id]
        with self._lock:
            self._found.append(snapshot_id)
            self._sound[snapshot_id] = manifest
            self._completed, self._is_checked = snapshot_id, True
        self._remove_old()
        return SnapshotSize(manifest.rows, manifest.bytes, unfinished.bytes_written)

    def _export(self, snapshot_id: int, folder: Path, about: Mapping[str, str]) -> Exception | None:
        try:
            with self._lock:
                manifest = self._sound.get(snapshot_id)
            if manifest is None:
                raise no_such_snapshot(snapshot_id)
            copy_snapshot(
                self._path(snapshot_id), replace(manifest, about=dict(about)), folder, self._disk
            )
        except OSError as error:
            return OperationalError(
                f'snapshot {snapshot_id} can\'t be copied to "{folder}"',
                detail=error.strerror or str(error),
            )
        except Exception as error:
            return error
        return None

    def _story(self, snapshot_id: int, error: Exception) -> Exception:
        if not isinstance(error, OSError):
            return error
        failure = OperationalError(
            f'snapshot {snapshot_id} can\'t be written to "{self._folder}"',
            detail=error.strerror or str(error),
        )
        failure.__cause__ = error
        return failure

    def _give_up(self, snapshot_id: int) -> None:
        """Discards an incomplete snapshot. Files that cannot be removed now are removed when the
        folder is opened next."""
        self._failed.pop(snapshot_id, None)
        unfinished = self._unfinished.pop(snapshot_id, None)
        if unfinished is not None:
            with suppress(OSError):
                unfinished.give_up()

    def _remove_old(self) -> None:
        """Removes the snapshots before the last two undamaged ones. A folder is renamed before it
        is removed, so that it never looks like a damaged snapshot."""
        with self._lock:
            old = [] if self._pins else self._found[: -self._retained_count()]
        for number in old:
            try:
                gone = self._folder / f".{number}"
                self._disk.rename(self._path(number), gone)
                with self._lock:
                    self._found.remove(number)
                    self._sound.pop(number, None)
                self._disk.remove(gone)
            except OSError as error:
                logger.warning("snapshot %d can't be removed: %s", number, error)

    def _retained_count(self) -> int:
        """The number of newest snapshots to retain, so that two undamaged ones are among them; all
        if there are fewer than two."""
        sound = [
            index for index, number in enumerate(reversed(self._found)) if number in self._sound
        ]
        return sound[RETAINED - 1] + 1 if len(sound) >= RETAINED else len(self._found)

    def _remove_unfinished(self) -> None:
        for number in numbered(self._folder, "."):
            with suppress(OSError):
                self._disk.remove(self._folder / f".{number}")

    def _path(self, snapshot_id: int) -> Path:
        return self._folder / str(snapshot_id)

    def _room(self) -> None:
        if self.on_room is not None:
            self.on_room()


def copy_snapshot(source: Path, manifest: SnapshotManifest, folder: Path, disk: Disk) -> None:
    """Copies the snapshot in `source` to a folder, under the next number, and removes the older
    snapshots in that folder. The copy shares its files with the source if the file system can do
    that."""
    if not folder.exists():
        disk.make_folder(folder)
        disk.sync_folder(folder.parent)
    old = sorted(numbered(folder, ""))
    number = max((*old, *numbered(folder, ".")), default=0) + 1
    unfinished, target = folder / f".{number}", folder / str(number)
    disk.make_folder(unfinished)
    for name in manifest.files:
        disk.link(source / name, unfinished / name)
    write_manifest(unfinished, manifest, disk)
    disk.sync_folder(unfinished)
    disk.rename(unfinished, target)
    disk.sync_folder(folder)
    for gone in old:
        # A store that opens the folder uses the newest, and removes folders that remained.
        with suppress(OSError):
            disk.rename(folder / str(gone), folder / f".{gone}")
            disk.remove(folder / f".{gone}")


def numbered(folder: Path, prefix: str) -> Iterator[int]:
    """The numbers of the entries of a folder whose names are a number after a prefix."""
    if folder.is_dir():
        for path in folder.iterdir():
            name = path.name.removeprefix(prefix)
            if path.name == prefix + name and name.isascii() and name.isdigit():
                yield int(name)
