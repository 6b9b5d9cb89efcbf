"""Writes to a map by a job: rows are gathered, staged, and become visible together at the commit.

Epoch 0 belongs to a light job, which ends with its connection: its rows are staged in memory only,
and one log record commits them. Rows staged for a later epoch are in the log before `stage`
returns, so that the token can commit them after a restart too. If the rows of a token are not
staged, they were committed (or aborted) before, and committing the token does nothing. The names of
rows that a durable job staged end with its owner, so that its next execution finds the rows that no
snapshot includes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from uuid import uuid4

import numpy as np
import pyarrow as pa

from runnel.columns.batches import indexes, numbers
from runnel.columns.write_modes import RowKind
from runnel.connector import Sink, Token, WriteMode
from runnel.connectors.imap.keys import Key, keys_of, null_key
from runnel.connectors.imap.layout import MapLayout, select_fields
from runnel.connectors.imap.storage.segment import MOST_ROWS
from runnel.connectors.imap.storage.staging import MapStaging, StagedRows

Batches = list[pa.RecordBatch]


class MapSink(Sink):
    """Writes rows of a mapping with the layout `layout`.

    `written` is the layout of the incoming batches, a subset of `layout`.
    """

    def __init__(
        self,
        staging: MapStaging,
        layout: MapLayout,
        written: MapLayout,
        mode: WriteMode,
        owner: str = "",
    ) -> None:
        missing = [path for path, _ in layout.key_fields if path not in written.indexes]
        if missing:
            raise null_key(missing[0])
        self._staging = staging
        self._name = staging.store.name
        self._layout = layout
        self._written = written
        self._mode = mode
        self._owner = owner
        self._key_columns = [written.indexes[path] for path, _ in layout.key_fields]
        self._batches: Batches = []
        self._keys: list[list[Key]] = []
        self._tokens: list[str] = []

    def recover(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self.commit(token)
        for name in self._staging.names_of(self._owner) if self._owner else ():
            self._staging.abort(name)

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._keys.append(keys_of(batch, self._key_columns, self._layout))
            self._batches.append(batch)

    def stage(self, epoch: int) -> Token:
        if self._mode is not WriteMode.CHANGES:
            name = self._stage(self._mode, self._batches, self._keys, epoch)
            self._batches, self._keys = [], []
            return {"map": self._name, "rows": name}
        written, removed = self._divided()
        self._batches, self._keys = [], []
        return {
            "map": self._name,
            "rows": self._stage(WriteMode.SINK, *written, epoch),
            "removed": self._stage(WriteMode.DELETE, *removed, epoch),
        }

    def _divided(self) -> tuple[tuple[Batches, list[list[Key]]], tuple[Batches, list[list[Key]]]]:
        """The rows to write, without their kind, and the rows to remove; each with the keys."""
        written: tuple[Batches, list[list[Key]]] = ([], [])
        removed: tuple[Batches, list[list[Key]]] = ([], [])
        for batch, keys in zip(self._batches, self._keys, strict=True):
            is_removed = numbers(batch.column(batch.num_columns - 1), np.int8) == RowKind.DELETE
            rows = batch.select(range(batch.num_columns - 1))
            for (batches, chunks), mask in ((written, ~is_removed), (removed, is_removed)):
                taken = np.flatnonzero(mask)
                if len(taken):
                    batches.append(rows.take(indexes(taken)))
                    chunks.append([keys[i] for i in taken.tolist()])
        return written, removed

    def _stage(self, mode: WriteMode, rows: Batches, row_keys: list[list[Key]], epoch: int) -> str:
        """Stages rows, and returns their name."""
        target = self._layout.key_layout if mode is WriteMode.DELETE else self._layout
        batches, keys = [], []
        for group, group_keys in _grouped(rows, row_keys):
            joined = pa.concat_batches(group) if group[0].num_columns else group[0]
            columns = select_fields(joined, self._written, target, range(len(target.paths)))
            batches.append(pa.RecordBatch.from_arrays(columns, schema=target.schema))
            keys.append(group_keys)
        name = f"{uuid4().hex}:{self._owner}" if self._owner else uuid4().hex
        staged = StagedRows(mode, self._layout, batches, keys)
        self._staging.stage(name, staged, is_lasting=epoch > 0)
        self._tokens.append(name)
        return name

    def commit(self, token: Token) -> None:
        # Readers see both the written and the removed rows, or none.
        with self._between_statements(), self._staging.store.lock:
            for name in _names(token):
                self._staging.commit(name)
        self._forget(token)

    def _between_statements(self) -> AbstractContextManager[object]:
        """The lock to hold during a commit.

        A job's commit waits for a running statement that reads and writes, so that neither loses
        the other's change. A statement's own commit runs under the lock that the statement holds.
        """
        return self._staging.store.statement_lock if self._owner else nullcontext()

    def abort(self, token: Token | None) -> None:
        if token is None:
            self._batches, self._keys = [], []
            for name in self._tokens:
                self._staging.abort(name)
            self._tokens = []
        else:
            for name in _names(token):
                self._staging.abort(name)
            self._forget(token)

    def _forget(self, token: Token) -> None:
        for name in _names(token):
            if name in self._tokens:
                self._tokens.remove(name)

    def close(self) -> None:
        # Lasting tokens remain: a restarted job may commit them.
        self._batches, self._keys = [], []
        for name in self._tokens:
            self._staging.abort(name, keep_lasting=True)
        self._tokens = []


def _names(token: Token) -> list[str]:
    """The names of the rows of a token."""
    return [str(token[part]) for part in ("rows", "removed") if part in token]


def _grouped(batches: Batches, keys: list[list[Key]]) -> Sequence[tuple[Batches, list[Key]]]:
    """The batches in groups of at most MOST_ROWS rows, each with its keys."""
    groups: list[tuple[Batches, list[Key]]] = []
    rows = MOST_ROWS
    for batch, chunk in zip(batches, keys, strict=True):
        if rows + batch.num_rows > MOST_ROWS:
            groups.append(([], []))
            rows = 0
        groups[-1][0].append(batch)
        groups[-1][1].extend(chunk)
        rows += batch.num_rows
    return groups
