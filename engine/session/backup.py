"""A backup: a consistent copy of a directory, as a crash at one instant would have left it.

The gate of durable writes is closed for the instant of the cut, in which the files are listed;
writes wait for some milliseconds. Then the files are copied. The copy gets its name when it is
complete and durable. Opening it restores it: recovery is the one after a crash.

The rows of the DuckDB tables are read in a transaction that begins within the cut. Commits of
DuckDB and the checkpoints of jobs on Spark do not pass the gate. They are consistent nevertheless:
sinks stage rows before the record that names them, and commit after it; the records pass the gate,
and DuckDB is read last.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic, time_ns
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.deadline import current
from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError
from runnel.session.directory import Directory, is_open
from runnel.session.directory_version import FILE as RECORD
from runnel.session.directory_version import VERSION, DirectoryRecord, Origin, write_record
from runnel.storage.directory_cut import DirectoryCut
from runnel.storage.durable_files import OWN_FOLDER, sync_folder
from runnel.storage.write_gate import durable_writes

if TYPE_CHECKING:
    from runnel.access import Access
    from runnel.duckdb.copying import TablesCopy
    from runnel.duckdb.kernel import DuckDBKernel
    from runnel.results.progress import QueryProgress

logger = logging.getLogger("runnel.backup")

CONTENT = ("catalog.json", "catalog.next", "maps", "jobs", "snapshots", "writers")
"""The files and folders that a backup contains, in addition to its record and the tables."""
TABLES = "tables.duckdb"
"""The file of the DuckDB tables."""
REPORTED = 10.0
"""Interval in seconds at which the log has the progress of a backup."""

_REMEDIES = {
    errno.ENOSPC: "make room on the disk, or name a folder on another disk",
    errno.EDQUOT: "make room on the disk, or name a folder on another disk",
    errno.EMFILE: "raise the limit of open files (ulimit -n), "
    "or name a folder on the disk of the directory",
}


@frozen
class BackupSize:
    """A completed backup.

    path: real path of its folder.
    files: number of its files.
    bytes: total size of the files; files that are linked count as well.
    paused: seconds for which writes had to wait.
    """

    path: str
    files: int
    bytes: int
    paused: float


def checked_target(source: Path, text: str) -> Path:
    """The real path of a target. ProgrammingError for a path that cannot be a target of a backup of
    the directory `source`, OperationalError if it exists and is not an empty folder."""
    if not text or "\0" in text or "://" in text:
        raise ProgrammingError(
            f"{text!a} can't be the folder of a backup",
            hint="name a folder of this machine that does not exist yet",
        )
    try:
        target, own = Path(os.path.realpath(text)), Path(os.path.realpath(source))
        if target == own or own in target.parents:
            raise ProgrammingError(
                f'the backup can\'t be written to "{text}", in the directory itself',
                hint="name a folder outside of the directory",
            )
        if not target.parent.is_dir():
            raise _failed(text, "its parent folder does not exist", "create the folder first")
        if target.is_mount():
            raise _failed(text, "a file system is mounted there", "name a new folder below it")
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise _failed(text, "it exists, and is not an empty folder", "name a new folder")
    except (OSError, ValueError) as error:
        raise failure(text, error) from error
    return target


def back_up(
    source: Path, text: str, bounds: Access, kernel: Callable[[], DuckDBKernel]
) -> BackupSize:
    """Makes a backup of an open directory.

    text: the path of the backup.
    bounds: what callers with bounds may read, to which a backup must not belong.
    kernel: returns the connection's DuckDB.
    """
    target = checked_target(source, text)
    if bounds.covers(str(target)):
        raise ProgrammingError(
            f'the backup can\'t be written to "{text}"',
            code=ErrorCode.NOT_ALLOWED,
            detail="users could read it there, with the passwords in the options of mappings",
            hint="name a folder that is outside of --files",
        )

    def copy_tables(file: Path) -> TablesCopy:
        from runnel.duckdb.copying import TablesCopy

        return TablesCopy(kernel(), file)

    return Backup(source, target, copy_tables).run()


def warn_of_original(directory: Directory) -> None:
    """Logs a warning if a directory with jobs is a backup whose original is open as well."""
    origin = directory.record.origin
    # The usual restore renames the backup to the path of the original.
    if origin is None or os.path.realpath(directory.path) == os.path.realpath(origin.path):
        return
    if not is_open(Path(origin.path)):
        return
    logger.warning(
        'the jobs of "%s" continue from its backup of "%s", which is open as well: both run the '
        "same jobs, with the same ids. Their sinks outside of the directory may lose or repeat "
        "rows; suspend or drop the jobs of one of them",
        directory.path,
        origin.path,
    )


def back_up_closed(source: Path, text: str) -> BackupSize:
    """Makes a backup of a directory that no connection has open. OperationalError if one has, or if
    the directory does not exist."""
    if not source.is_dir():
        raise OperationalError(
            f'directory "{source}" does not exist', code=ErrorCode.OBJECT_NOT_FOUND
        )
    target = checked_target(source, text)
    with closing(Directory(source, is_upgraded=False)) as directory:
        return Backup(source, target, None, directory.record.version).run()


class Backup:
    """A backup that is being made. `run` is called once.

    source: the directory.
    target: the result of `checked_target`.
    tables: begins a copy of the DuckDB tables in a file; None: DuckDB does not run, so that the
        file of the tables is copied as it is.
    version: version of the directory's format; the backup has the same.
    written: number of bytes copied so far.
    to_write: number of bytes to copy; 0 before the cut.
    """

    def __init__(
        self,
        source: Path,
        target: Path,
        tables: Callable[[Path], TablesCopy] | None,
        version: int = VERSION,
    ) -> None:
        self._source = source
        self._target = target
        self._tables = tables
        self._version = version
        self._tables_copy: TablesCopy | None = None
        self._deadline = current()
        self._begun = self._reported = monotonic()
        self.written = self.to_write = 0

    def run(self) -> BackupSize:
        """Makes the backup. If it fails, nothing of it remains, and the directory is unchanged."""
        name = f".{self._target.name}.unfinished-{token_hex(4)}"
        unfinished = self._target.with_name(name)
        self._deadline.report = self.progress
        try:
            unfinished.mkdir(OWN_FOLDER)
            cut = DirectoryCut(self._source, unfinished)
            try:
                return self._filled(cut, unfinished)
            finally:
                cut.close()
                if self._tables_copy is not None:
                    self._tables_copy.close()
        except BaseException as error:
            with suppress(OSError):
                shutil.rmtree(unfinished)
            if isinstance(error, OSError):
                raise failure(str(self._target), error) from error
            raise

    def progress(self) -> QueryProgress:
        """How much is copied, without the DuckDB tables. From any thread."""
        from runnel.results.progress import QueryProgress, StepProgress

        step = StepProgress("backup", 0, 0, bytes_done=self.written, bytes=self.to_write)
        return QueryProgress(monotonic() - self._begun, False, (step,))

    def _filled(self, cut: DirectoryCut, unfinished: Path) -> BackupSize:
        time, paused = self._listed(cut, unfinished)
        files, size, self.to_write = cut.files, cut.size, cut.size_to_write
        cut.write(self._wrote)
        if self._tables_copy is not None:
            self._tables_copy.write()
            files, size = files + 1, size + (unfinished / TABLES).stat().st_size
        if self._version > 1:
            origin = Origin(os.path.realpath(self._source), time)
            write_record(unfinished, DirectoryRecord(self._version, origin=origin))
            files, size = files + 1, size + (unfinished / RECORD).stat().st_size
        sync_folder(unfinished)
        self._check()
        unfinished.rename(self._target)
        sync_folder(self._target.parent)
        logger.info(
            'backup of "%s" to "%s": %d files, %d bytes; writes were paused for %.1f ms',
            self._source,
            self._target,
            files,
            size,
            paused * 1e3,
        )
        return BackupSize(str(self._target), files, size, paused)

    def _listed(self, cut: DirectoryCut, unfinished: Path) -> tuple[int, float]:
        """Adds all files to the cut; returns its time, in µs since 1970, and the length of the
        pause in seconds."""
        while True:
            has_tables = (self._source / TABLES).exists()
            if has_tables and self._tables is not None:
                self._tables_copy = self._tables(unfinished / TABLES)
            begun = monotonic()
            with durable_writes.closed():
                if (self._source / TABLES).exists() and not has_tables:
                    continue  # they were created meanwhile
                time = time_ns() // 1000
                names = CONTENT if self._tables is not None else (*CONTENT, TABLES, f"{TABLES}.wal")
                for name in names:
                    cut.add(name, is_left_out=_is_left_out, is_changed=_is_changed)
                if self._tables_copy is not None:
                    self._tables_copy.pin()
            return time, monotonic() - begun

    def _wrote(self, size: int) -> None:
        self.written += size
        self._check()
        if monotonic() - self._reported >= REPORTED:
            self._reported = monotonic()
            logger.info(
                'backup of "%s": %d of %d MB are copied',
                self._source,
                self.written // 1_000_000,
                self.to_write // 1_000_000,
            )

    def _check(self) -> None:
        self._deadline.check()
        self._deadline.check_time()


def _is_left_out(name: str) -> bool:
    """Whether a file is not complete yet, or obsolete: its name begins with a dot, except in the
    checkpoints of Spark."""
    folders = name.split("/")
    is_of_spark = len(folders) > 3 and folders[0] == "jobs" and folders[2] == "runtime"
    return folders[-1].startswith(".") and not is_of_spark


def _is_changed(name: str) -> bool:
    """Whether a file is changed in place: the logs of maps are, and DuckDB's files. All other files
    are replaced."""
    folders = name.split("/")
    return (len(folders) == 3 and folders[0] == "maps" and folders[2].startswith("log-")) or (
        name.startswith(TABLES)
    )


def failure(target: str, error: Exception) -> Error:
    """The error for a backup that the operating system refused."""
    number = getattr(error, "errno", None)
    return _failed(
        target,
        getattr(error, "strerror", None) or str(error),
        _REMEDIES.get(number or 0, "name a new folder that this process can write"),
    )


def _failed(target: str, detail: str, hint: str) -> OperationalError:
    return OperationalError(
        f'the backup can\'t be written to "{target}"',
        code=ErrorCode.INPUT_OUTPUT,
        detail=detail,
        hint=hint,
    )
