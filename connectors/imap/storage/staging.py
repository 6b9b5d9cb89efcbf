"""Rows between `stage` and `commit`: written by a job, durable if the job is, and not yet
visible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from runnel.connector import WriteMode
from runnel.connectors.imap.keys import Key
from runnel.connectors.imap.layout import MapLayout
from runnel.connectors.imap.storage.store import MapStore


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows that wait for their commit.

    mode: how they are written.
    layout: the layout of the rows.
    batches: rows of `layout`, or, for DELETE, rows of its key.
    keys: their key forms, batch by batch.
    """

    mode: WriteMode
    layout: MapLayout
    batches: list[pa.RecordBatch]
    keys: list[list[Key]]


class StagingLog(Protocol):
    """The part of a durable map's log that staging needs."""

    def stage(self, name: str, rows: StagedRows) -> None:
        """Logs staged rows; they are durable when it returns."""

    def abort(self, name: str) -> None:
        """Logs that staged rows were aborted."""


class MapStaging:
    """The staged rows of one map. Names of staged rows are never used twice.

    Lasting rows (the rows of a durable job) are in the log, if the map has one, and remain
    until they are committed or aborted, even after their sink was closed.
    """

    def __init__(self, store: MapStore) -> None:
        self.store = store
        self.log: StagingLog | None = None
        self._staged: dict[str, StagedRows] = {}
        self._lasting: set[str] = set()

    def lasting(self) -> dict[str, StagedRows]:
        """The rows that must survive a restart. With the store's lock held."""
        return {name: self._staged[name] for name in self._lasting}

    def names_of(self, owner: str) -> list[str]:
        """The names of lasting rows that this owner staged: the part after the colon is the
        owner."""
        with self.store.lock:
            return [name for name in self._lasting if name.partition(":")[2] == owner]

    def stage(self, name: str, rows: StagedRows, *, is_lasting: bool) -> None:
        with self.store.lock:
            if is_lasting and self.log is not None:
                self.log.stage(name, rows)
            self.restore(name, rows, is_lasting=is_lasting)

    def restore(self, name: str, rows: StagedRows, *, is_lasting: bool = True) -> None:
        """`stage` without the log."""
        self._staged[name] = rows
        if is_lasting:
            self._lasting.add(name)

    def commit(self, name: str) -> None:
        """Makes staged rows part of the map; does nothing if they are not staged.

        If it fails, they remain staged.
        """
        with self.store.lock:
            rows = self._staged.get(name)
            if rows is None:
                return
            is_lasting = name in self._lasting
            # First removed from the staged rows: a checkpoint during the write would store them as
            # staged as well.
            self.forget(name)
            try:
                self._apply(rows, name if is_lasting else None)
            except BaseException:
                self.restore(name, rows, is_lasting=is_lasting)
                raise

    def _apply(self, rows: StagedRows, staged: str | None) -> None:
        store = self.store
        if rows.mode is WriteMode.INSERT:
            store.insert_many(rows.batches, rows.keys, rows.layout, staged)
        elif rows.mode is WriteMode.SINK:
            store.put_many(rows.batches, rows.keys, rows.layout, staged)
        elif rows.mode is WriteMode.UPDATE:
            store.replace_many(rows.batches, rows.keys, rows.layout, staged)
        else:
            store.remove_many(rows.batches, rows.keys, rows.layout, staged)

    def abort(self, name: str, *, keep_lasting: bool = False) -> None:
        """Discards staged rows; with `keep_lasting` only the rows of a light job."""
        with self.store.lock:
            if name not in self._staged or (keep_lasting and name in self._lasting):
                return
            if name in self._lasting and self.log is not None:
                self.log.abort(name)
            self.forget(name)

    def forget(self, name: str) -> None:
        """`abort` without the log."""
        self._staged.pop(name, None)
        self._lasting.discard(name)

    def clear(self) -> None:
        """Releases all memory."""
        self._staged.clear()
        self._lasting.clear()
