"""The storage of records of named jobs: `<directory>/jobs/<id>/job.json`, or only memory.

A record is replaced as a whole, by an atomic rename, and is on the disk when `save` returns. A
folder without a record remains from a job whose creation or removal was interrupted, and is
deleted.
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
from runnel.named_jobs.record.record import FORMATS, JobRecord
from runnel.storage.durable_files import OWN_FOLDER, replace_file, sealed, sync_folder, unsealed
from runnel.storage.write_gate import durable_writes

if TYPE_CHECKING:
    from runnel.snapshots.store import SnapshotStore

logger = logging.getLogger("runnel.job")

FILE = "job.json"


class UnreadableRecord:
    """A record on the disk whose job cannot run.

    path: path of the file.
    reason: why it cannot be read.
    job_id: id of the job; None if unknown.
    name: name of the job; None if unknown.
    """

    def __init__(self, path: Path, error: Exception) -> None:
        self.path = path
        self.reason = str(error) or type(error).__name__
        self.job_id = int(path.parent.name) if path.parent.name.isdecimal() else None
        self.name = _name_in(path)


def _name_in(path: Path) -> str | None:
    """The name of the job, if the file contains it."""
    try:
        found = re.search(
            r'"name": ("(?:[^"\\]|\\.)*")', path.read_bytes().decode(errors="replace")
        )
        return None if found is None else str(json.loads(found[1]))
    except (OSError, ValueError):
        return None


class JobRecords:
    """The records of one connection; in memory if `folder` is None. Thread-safe, provided that each
    job's record is saved by one thread at a time."""

    def __init__(self, folder: Path | None, check: Callable[[], None] | None = None) -> None:
        self.folder = folder
        self._check = check
        self.unreadable: list[UnreadableRecord] = []
        """The records that `load` could not read."""

    def load(self) -> list[JobRecord]:
        """All records, the oldest job first. A record that cannot be read remains on the disk, and
        the error is logged."""
        self.unreadable = []
        if self.folder is None or not self.folder.exists():
            return []
        found = []
        for item in sorted(self.folder.iterdir()):
            if not item.is_dir():
                continue
            try:
                found.append(JobRecord.from_json(unsealed((item / FILE).read_bytes(), *FORMATS)))
            except FileNotFoundError:
                shutil.rmtree(item, ignore_errors=True)
            except Exception as error:  # one broken record does not affect the rest
                logger.error(
                    "the job record %s can't be read, so its job doesn't run: %s",
                    item / FILE,
                    error,
                )
                self.unreadable.append(UnreadableRecord(item / FILE, error))
        return sorted(found, key=lambda record: (record.created, record.id))

    def check_readable(self, name: str) -> None:
        """OperationalError if the record of a job of that name exists but cannot be read."""
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
        """OperationalError if the snapshot from which a job resumes is missing: otherwise the job
        would silently start without state. The store itself skips damaged snapshots."""
        if record.snapshot is None:
            return
        found = store.completed
        if found is not None and (found >= record.snapshot or store.passed_over is not None):
            return
        available = "no snapshot is" if found is None else f"no later one than {found} is"
        raise OperationalError(
            f'job "{record.name}" can\'t resume: its last snapshot, {record.snapshot}, is missing',
            code=ErrorCode.GENERIC,
            detail=f"{available} in {self.folder_of(record.id)}/snapshots",
            hint="restore the folder from a backup and open the directory again; "
            "to begin from nothing, DROP JOB and CREATE JOB again",
        )

    def save(self, record: JobRecord) -> None:
        """Writes a record; OperationalError if it cannot be written: the previous record then
        remains."""
        folder = self.folder_of(record.id)
        if folder is None:
            return
        if self._check is not None:
            self._check()
        try:
            self._write(folder, sealed(record.to_json()))
        except OSError as error:
            raise OperationalError(
                f'the record of job "{record.name}" can\'t be written',
                detail=error.strerror or str(error),
                hint="make room on the disk and try again",
            ) from error

    def remove(self, record: JobRecord) -> None:
        """Deletes a job's folder. The record is deleted first, so that the job is gone even if this
        is interrupted."""
        folder = self.folder_of(record.id)
        if folder is None or not folder.exists():
            return
        try:
            with durable_writes:
                (folder / FILE).unlink(missing_ok=True)
                sync_folder(folder)
            shutil.rmtree(folder)
        except OSError as error:
            raise OperationalError(
                f'the data of job "{record.name}" can\'t be removed',
                detail=error.strerror or str(error),
            ) from error

    def folder_of(self, job_id: int) -> Path | None:
        """The folder of a job; None in memory."""
        return None if self.folder is None else self.folder / str(job_id)

    def _write(self, folder: Path, text: str) -> None:
        is_new = not folder.exists()
        folder.parent.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
        folder.mkdir(OWN_FOLDER, exist_ok=True)
        replace_file(folder / FILE, text)
        if is_new:
            sync_folder(folder.parent)
            sync_folder(folder.parent.parent)
