"""Where records of named jobs are kept: `<directory>/jobs/<id>/job.json`, or nowhere but in memory.

A record is replaced as a whole, by an atomic rename, and is on the disk when `save` returns. A folder without a record is what
is left of a job that was being made or dropped, and goes.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from runnel.disk import sync_file, sync_folder
from runnel.errors import OperationalError
from runnel.named_jobs.record import JobRecord

logger = logging.getLogger("runnel.job")

FILE = "job.json"


class JobRecords:
    """The records of one connection; with `folder` None they end with it. Safe for threads as far as each job's own record is
    saved by one at a time."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def load(self) -> list[JobRecord]:
        """All records, the oldest job first. One that can't be read is left where it is, and told."""
        if self.folder is None or not self.folder.exists():
            return []
        found = []
        for place in sorted(self.folder.iterdir()):
            if not place.is_dir():
                continue
            try:
                found.append(JobRecord.from_json(json.loads((place / FILE).read_bytes().decode())))
            except FileNotFoundError:
                shutil.rmtree(place, ignore_errors=True)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                logger.error("the job record %s can't be read, so its job doesn't run: %s", place / FILE, error)
        return sorted(found, key=lambda record: (record.created, record.id))

    def save(self, record: JobRecord) -> None:
        """Keeps a record; OperationalError where it can't be written: then the one before it is kept."""
        place = self.place(record.id)
        if place is None:
            return
        try:
            self._write(place, json.dumps(record.to_json(), ensure_ascii=False, indent=1))
        except OSError as error:
            raise OperationalError(
                f'the record of job "{record.name}" can\'t be written',
                detail=error.strerror or str(error),
                hint="make room on the disk and try again",
            ) from error

    def remove(self, record: JobRecord) -> None:
        """Forgets a job and all that is kept for it: first its record, so that it is gone whenever this is cut short."""
        place = self.place(record.id)
        if place is None or not place.exists():
            return
        try:
            (place / FILE).unlink(missing_ok=True)
            sync_folder(place)
            shutil.rmtree(place)
        except OSError as error:
            raise OperationalError(
                f'what is kept of job "{record.name}" can\'t be removed', detail=error.strerror or str(error)
            ) from error

    def place(self, job_id: int) -> Path | None:
        """The folder of a job; None in memory."""
        return None if self.folder is None else self.folder / str(job_id)

    def _write(self, place: Path, text: str) -> None:
        is_new = not place.exists()
        place.mkdir(parents=True, exist_ok=True)
        target, unfinished = place / FILE, place / f".{FILE}.new"
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            sync_file(file.fileno())
        unfinished.replace(target)
        sync_folder(place)
        if is_new:
            sync_folder(place.parent)
            sync_folder(place.parent.parent)
