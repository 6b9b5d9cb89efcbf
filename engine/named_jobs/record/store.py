"""Where records of named jobs are kept: `<directory>/jobs/<id>/job.json`, or nowhere but in memory.

A record is replaced as a whole, by an atomic rename, and is on the disk when `save` returns. A
folder without a record is what is left of a job that was being made or dropped, and goes.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from runnel.errors import ErrorCode, OperationalError
from runnel.named_jobs.record.record import FORMAT, JobRecord
from runnel.storage.durable_files import OWN_FOLDER, replace_file, sync_folder
from runnel.storage.sealed_json import sealed, unsealed

if TYPE_CHECKING:
    from runnel.snapshots.store import SnapshotStore

logger = logging.getLogger("runnel.job")

FILE = "job.json"


class UnreadableRecord:
    """A record on the disk whose job can't be run. `job_id` and `name` are None where even that
    isn't known."""

    def __init__(self, path: Path, error: Exception) -> None:
        self.path = path
        self.reason = str(error) or type(error).__name__
        self.job_id = int(path.parent.name) if path.parent.name.isdecimal() else None
        self.name = _name_in(path)


def _name_in(path: Path) -> str | None:
    """The name of the job, as far as the file says it."""
    try:
        found = re.search(
            r'"name": ("(?:[^"\\]|\\.)*")', path.read_bytes().decode(errors="replace")
        )
        return None if found is None else str(json.loads(found[1]))
    except (OSError, ValueError):
        return None


class JobRecords:
    """The records of one connection; with `folder` None they end with it. Safe for threads as far
    as each job's own record is saved by one at a time."""

    def __init__(self, folder: Path | None, check: Callable[[], None] | None = None) -> None:
        self.folder = folder
        self._check = check
        self.unreadable: list[UnreadableRecord] = []
        """Those that `load` found and couldn't read."""

    def load(self) -> list[JobRecord]:
        """All records, the oldest job first. One that can't be read is left where it is, and
        told."""
        self.unreadable = []
        if self.folder is None or not self.folder.exists():
            return []
        found = []
        for place in sorted(self.folder.iterdir()):
            if not place.is_dir():
                continue
            try:
                found.append(JobRecord.from_json(unsealed((place / FILE).read_bytes(), FORMAT)))
            except FileNotFoundError:
                shutil.rmtree(place, ignore_errors=True)
            except Exception as error:  # whatever is wrong with one, the others are read
                logger.error(
                    "the job record %s can't be read, so its job doesn't run: %s",
                    place / FILE,
                    error,
                )
                self.unreadable.append(UnreadableRecord(place / FILE, error))
        return sorted(found, key=lambda record: (record.created, record.id))

    def check_readable(self, name: str) -> None:
        """OperationalError where a job of that name is on the disk, in a record that can't be
        read."""
        for item in self.unreadable:
            if item.name is not None and item.name.lower() == name.lower():
                raise OperationalError(
                    f"job \"{item.name}\" can't be run: its record can't be read",
                    code=ErrorCode.GENERIC,
                    detail=f"{item.path}: {item.reason}",
                    hint=(
                        "put back a copy of the file and open the directory again; without its "
                        "folder the job is gone"
                    ),
                )

    def check_snapshot(self, record: JobRecord, store: SnapshotStore) -> None:
        """OperationalError where the snapshot that a job is to go on from is missing: it would
        begin from nothing in silence. One that is damaged is passed over by the store."""
        if record.snapshot is None:
            return
        found = store.completed
        if found is not None and (found >= record.snapshot or store.passed_over is not None):
            return
        there = "no snapshot is" if found is None else f"no later one than {found} is"
        raise OperationalError(
            f'job "{record.name}" can\'t go on: its last snapshot, {record.snapshot}, is missing',
            code=ErrorCode.GENERIC,
            detail=f"{there} in {self.place(record.id)}/snapshots",
            hint="restore the folder from a backup and open the directory again; "
            "to begin from nothing, DROP JOB and CREATE JOB again",
        )

    def save(self, record: JobRecord) -> None:
        """Keeps a record; OperationalError where it can't be written: then the one before it is
        kept."""
        place = self.place(record.id)
        if place is None:
            return
        if self._check is not None:
            self._check()
        try:
            self._write(place, sealed(record.to_json()))
        except OSError as error:
            raise OperationalError(
                f'the record of job "{record.name}" can\'t be written',
                detail=error.strerror or str(error),
                hint="make room on the disk and try again",
            ) from error

    def remove(self, record: JobRecord) -> None:
        """Forgets a job and all that is kept for it: first its record, so that it is gone whenever
        this is cut short."""
        place = self.place(record.id)
        if place is None or not place.exists():
            return
        try:
            (place / FILE).unlink(missing_ok=True)
            sync_folder(place)
            shutil.rmtree(place)
        except OSError as error:
            raise OperationalError(
                f'what is kept of job "{record.name}" can\'t be removed',
                detail=error.strerror or str(error),
            ) from error

    def place(self, job_id: int) -> Path | None:
        """The folder of a job; None in memory."""
        return None if self.folder is None else self.folder / str(job_id)

    def _write(self, place: Path, text: str) -> None:
        is_new = not place.exists()
        place.parent.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
        place.mkdir(OWN_FOLDER, exist_ok=True)
        replace_file(place / FILE, text)
        if is_new:
            sync_folder(place.parent)
            sync_folder(place.parent.parent)
