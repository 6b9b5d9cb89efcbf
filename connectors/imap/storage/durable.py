"""Maps on disk: a change is logged before it is made, and a checkpoint replaces a log that grew
large.

The folder of a map contains `checkpoint-<n>`, the rows at one point in time; `log-<n>`, the changes
since then; and `current`, the manifest, which names the valid pair. A new pair is written next to
the old one, and becomes valid when the manifest is replaced. The next start removes files of other
pairs. A map that was never written has no folder. A folder gets its name when its files are
durable. Therefore a missing, empty or truncated file is always damage.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from runnel.columns.batches import from_flags
from runnel.connector import WriteMode
from runnel.connectors.imap.keys import keys_of
from runnel.connectors.imap.layout import MapLayout
from runnel.connectors.imap.scan import live_rows
from runnel.connectors.imap.storage.log import (
    FILE_HEADER,
    RecordFile,
    create_file,
    logger,
    read_failed,
    read_records,
    write_failed,
)
from runnel.connectors.imap.storage.manifest import NAME as MANIFEST
from runnel.connectors.imap.storage.manifest import MapManifest, read_manifest
from runnel.connectors.imap.storage.records import Record, decode, encode
from runnel.connectors.imap.storage.staging import MapStaging, StagedRows
from runnel.errors import OperationalError
from runnel.storage.durable_files import sync_folder
from runnel.storage.write_gate import durable_writes

LEAST_LOG = 16 << 20
"""The size in bytes below which a log is not replaced by a checkpoint."""

_FIRST = MapManifest(0, None, len(FILE_HEADER))


class DurableMap:
    """The files of one map. Methods that log are called with the store's lock held."""

    def __init__(self, staging: MapStaging, folder: Path, least_log: int = LEAST_LOG) -> None:
        self._staging = staging
        self._store = staging.store
        self._folder = folder
        self._least_log = least_log
        self._manifest = _FIRST
        self._log: RecordFile | None = None
        self._checkpoint_at = least_log

    # Changes

    def rows(
        self, layout: MapLayout, batches: Sequence[pa.RecordBatch], staged: str | None
    ) -> None:
        self._append(
            Record("put", layout, batches) if staged is None else Record("commit", name=staged)
        )

    def delete(
        self, layout: MapLayout, batches: Sequence[pa.RecordBatch], staged: str | None
    ) -> None:
        self._append(
            Record("delete", layout, batches) if staged is None else Record("commit", name=staged)
        )

    def clear(self) -> None:
        self._append(Record("clear"))

    def stage(self, name: str, rows: StagedRows) -> None:
        self._append(_staged_record(name, rows))

    def abort(self, name: str) -> None:
        self._append(Record("abort", name=name))

    def _append(self, record: Record) -> None:
        if self._log is None:
            self._log = self._create()
        self._log.append(encode(record))

    def _create(self) -> RecordFile:
        """Creates the folder with an empty log, under another name until it has its files."""
        unfinished = self._folder.with_name("." + self._folder.name)
        try:
            if unfinished.exists():
                shutil.rmtree(unfinished)
            unfinished.mkdir(parents=True)
            create_file(_FIRST.log_path(unfinished))
            _FIRST.write(unfinished)
            sync_folder(unfinished)
            with durable_writes:
                unfinished.rename(self._folder)
            sync_folder(self._folder.parent)
            sync_folder(self._folder.parent.parent)
            return RecordFile(_FIRST.log_path(self._folder))
        except OSError as error:
            raise write_failed(self._folder, error) from error

    def changed(self) -> None:
        """Writes a checkpoint if the log has outgrown the last one.

        The change itself is durable: if the disk has no room for a checkpoint, the log continues.
        """
        if self._log is None or self._log.size < self._checkpoint_at:
            return
        try:
            self.checkpoint()
        except OperationalError as error:
            self._log_failure(error)
            self._checkpoint_at = self._log.size * 2

    def _log_failure(self, error: OperationalError) -> None:
        logger.warning(
            'map "%s": no checkpoint could be written, so its log was not shortened; no change is '
            "lost: %s",
            self._store.name,
            error.detail or error.message,
        )

    # Checkpoints

    def checkpoint(self) -> None:
        """Writes all rows, and the lasting staged rows, to a new pair of files. With the store's
        lock held."""
        old_log, folder = self._log, self._folder
        if old_log is not None:
            old_log.check()  # another connection may have a map at that path now
        new = MapManifest(self._manifest.generation + 1, 0, 0)
        try:
            size = create_file(new.checkpoint_path(folder), map(encode, self._row_records()))
            log_size = create_file(new.log_path(folder), map(encode, self._staged_records()))
            sync_folder(folder)
            log = RecordFile(new.log_path(folder))
            new = MapManifest(new.generation, size, log_size)
            new.write(folder)
        except OSError as error:
            raise write_failed(new.checkpoint_path(folder), error) from error
        self._log, self._manifest = log, new
        self._checkpoint_at = max(self._least_log, 2 * size)
        if old_log is not None:
            old_log.close()
        try:
            sync_folder(folder)
            self._remove_others()
        except OSError as error:
            raise write_failed(folder, error) from error

    def _row_records(self) -> Iterable[Record]:
        for view in self._store.snapshot():
            if live_rows(view):
                batch = view.segment.batch
                rows = batch if view.mask is None else batch.filter(from_flags(view.mask))
                yield Record("put", view.segment.layout, [rows])

    def _staged_records(self) -> Iterable[Record]:
        return [_staged_record(name, rows) for name, rows in self._staging.lasting().items()]

    def _remove_others(self) -> None:
        """Removes the files of other generations."""
        keep = {
            self._manifest.checkpoint_path(self._folder),
            self._manifest.log_path(self._folder),
            self._folder / MANIFEST,
        }
        with durable_writes:
            for path in self._folder.iterdir():
                if path not in keep and path.name.lstrip(".").startswith(
                    ("checkpoint-", "log-", MANIFEST)
                ):
                    path.unlink(missing_ok=True)

    # Start and end

    def load(self) -> None:
        """Reads the map from its files, if it has any."""
        folder = self._folder
        if not folder.is_dir():
            return
        self._manifest = manifest = read_manifest(folder)
        manifest.check(folder)
        log_path = manifest.log_path(folder)
        if manifest.checkpoint_size is not None:
            for payload, _ in read_records(manifest.checkpoint_path(folder), may_be_torn=False):
                self._replay(decode(payload))
        end = manifest.log_size
        for payload, size in read_records(log_path, may_be_torn=True):
            self._replay(decode(payload))
            end = size
        try:
            self._remove_others()
        except OSError as error:
            raise read_failed(folder, error) from error
        self._log = self._reopen(log_path, end)
        self._checkpoint_at = max(self._least_log, 2 * (manifest.checkpoint_size or 0))

    def _reopen(self, path: Path, end: int) -> RecordFile:
        try:
            log = RecordFile(path)
            if log.size > end:
                log.cut(end)
        except OSError as error:
            raise write_failed(path, error) from error
        return log

    def _replay(self, record: Record) -> None:
        store, staging = self._store, self._staging
        layout = None if record.layout is None else store.intern(record.layout)
        if record.kind == "clear":
            store.clear()
        elif record.kind == "commit":
            staging.commit(record.name)
        elif record.kind == "abort":
            staging.forget(record.name)
        elif layout is not None:
            batches = list(record.batches)
            keys = [keys_of(batch, layout.keys, layout) for batch in batches]
            if record.kind == "put":
                store.load(batches, keys, layout)
            elif record.kind == "delete":
                store.unload(keys)
            elif record.kind == "stage":
                staging.restore(
                    record.name, StagedRows(WriteMode(record.mode), layout, batches, keys)
                )
            else:
                raise _unknown(record.kind, store.name)
        else:
            raise _unknown(record.kind, store.name)

    def close(self) -> None:
        """Writes a checkpoint if that makes the next start considerably faster, and closes the
        files."""
        with self._store.lock:
            if self._log is None:
                return
            if self._log.size * 8 > (self._manifest.checkpoint_size or 0) and self._log.size > len(
                FILE_HEADER
            ):
                try:
                    self.checkpoint()
                except OperationalError as error:
                    self._log_failure(error)
            self._log.close()
            self._log = None


def _unknown(kind: str, name: str) -> OperationalError:
    return OperationalError(
        f'the log of map "{name}" holds a change of unknown kind "{kind}"',
        hint="open it with the version that wrote it",
    )


def _staged_record(name: str, rows: StagedRows) -> Record:
    layout = rows.layout.key_layout if rows.mode is WriteMode.DELETE else rows.layout
    return Record("stage", layout, rows.batches, name, rows.mode.value)


def folder_name(external: str) -> str:
    """The folder name of a map: its name in lower case, with %xx for characters that file names
    cannot have.

    Long names are shortened and get a hash.
    """
    lower = external.lower()
    quoted = quote(lower, safe="").replace(".", "%2E")
    if len(quoted) <= 200:
        return quoted
    return quoted[:120] + "-" + hashlib.sha256(lower.encode()).hexdigest()[:32]


def open_durable(staging: MapStaging, directory: Path, least_log: int = LEAST_LOG) -> DurableMap:
    """Loads the map of `staging` from its folder in `directory`, and logs its changes there from
    now on."""
    durable = DurableMap(staging, directory / folder_name(staging.store.name), least_log)
    durable.load()
    staging.log = durable
    staging.store.log = durable
    return durable
