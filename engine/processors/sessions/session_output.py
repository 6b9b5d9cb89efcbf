"""What comes out of sessions: rows with the bounds of the session that they are in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    from_flags,
    from_numbers,
    indexes,
    join_batches,
    make_batch,
    numbers,
    validity,
)
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.errors import DataError, Position
from runnel.processors.grouping.row_identity import factorise, same
from runnel.processors.sessions.session_merge import OpenSessions
from runnel.processors.sources.partition_watermarks import event_times
from runnel.processors.time_windows.assign_windows import bounds_range
from runnel.relation.streams import WINDOW_COLUMNS
from runnel.sqltypes import TIMESTAMP, Kind, SqlType, to_arrow


@dataclass(slots=True)
class Held:
    """Rows that wait: those at `rows` of a batch, and the number of each one's session.
    `file_bytes`: what the batch takes in a file, where it is in one."""

    batch: pa.RecordBatch
    rows: Indexes
    sessions: Indexes
    file_bytes: int = 0

    def taken(self) -> pa.RecordBatch:
        """The rows as a batch of their own."""
        return self.batch.take(indexes(self.rows))

    def at(self, mask: Mask) -> Held:
        """Some of the rows."""
        return Held(self.batch, self.rows[mask], self.sessions[mask])

    def keep(self, mask: Mask) -> None:
        """Leaves only some rows."""
        self.rows, self.sessions = self.rows[mask], self.sessions[mask]
        if not self.file_bytes and 2 * len(self.rows) < self.batch.num_rows:
            self.batch = self.taken()
            self.rows = np.arange(len(self.rows))


@frozen
class SessionPlan:
    """What the processors of a vertex share. The rows have the first `width` columns of the input;
    `keys` are columns of it by which the sessions are told apart."""

    gap: int
    time: int
    type: SqlType
    keys: tuple[int, ...]
    width: int
    names: tuple[str, ...]
    position: Position | None

    @property
    def arrow(self) -> pa.DataType:
        """The type of the bounds."""
        return to_arrow(TIMESTAMP if self.type.kind is Kind.DATE else self.type)

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(i) for i in self.keys]

    def hashes(self, batch: pa.RecordBatch) -> Hashes:
        return (
            hash_columns(self.key_columns(batch))
            if self.keys
            else np.zeros(batch.num_rows, np.uint64)
        )

    def times(self, batch: pa.RecordBatch) -> Indexes:
        """The event times of rows that all have one."""
        return numbers(event_times(batch.column(self.time)), np.int64)

    def divided(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The rows that have a time; and of those that have none what comes out of them at once."""
        valid = validity(batch.column(self.time))
        if valid is None:
            return batch, None
        rest = batch.filter(from_flags(~valid))
        nulls = [pa.nulls(rest.num_rows, self.arrow) for _ in WINDOW_COLUMNS]
        return batch.filter(from_flags(valid)), self._batch(
            [*rest.columns[: self.width], *nulls], rest.num_rows
        )

    def results(
        self, complete: Sequence[Held], first: Indexes, last: Indexes
    ) -> Iterator[pa.RecordBatch]:
        """The rows of complete sessions, whose first and last events are given by their numbers."""
        found = self._apart_by_key(complete) if self.keys else None
        if found is not None:
            complete, first, last = found
        for held in complete:
            starts, ends = first[held.sessions], last[held.sessions]
            self._check(ends)
            for at in range(0, len(held.rows), MAX_ROWS):
                piece = slice(at, at + MAX_ROWS)
                yield self._result(
                    held.batch.take(indexes(held.rows[piece])),
                    starts[piece],
                    ends[piece] + self.gap,
                )

    def _apart_by_key(
        self, complete: Sequence[Held]
    ) -> tuple[Sequence[Held], Indexes, Indexes] | None:
        """Sessions in which keys that have the same hash came together, taken apart; None if there
        are none, as is usual."""
        if not complete:
            return None
        batch = join_batches([held.taken() for held in complete])
        sessions = np.concatenate([held.sessions for held in complete])
        keys = self.key_columns(batch)
        rows = np.arange(len(sessions))
        some = np.empty(int(sessions.max()) + 1, np.int64)
        some[sessions] = rows
        if same(keys, rows, keys, some[sessions]).all():
            return None
        codes, _ = factorise(keys)
        apart = OpenSessions(self.gap)
        exact, _ = apart.add(codes.astype(np.uint64), self.times(batch), None)
        return [Held(batch, rows, exact)], apart.first, apart.last

    def _check(self, ends: Indexes) -> None:
        """DataError where the end of a session is none of the type's values."""
        greatest = bounds_range(self.type)[1]
        if (ends > greatest - self.gap).any():
            raise DataError(
                "a session has an end that is out of the range of "
                f"{TIMESTAMP if self.type.kind is Kind.DATE else self.type}",
                hint="leave the row out with WHERE"
                + (", or CAST the column to BIGINT" if self.type.is_integer else ""),
                position=self.position,
            )

    def _result(self, batch: pa.RecordBatch, starts: Indexes, ends: Indexes) -> pa.RecordBatch:
        width = np.dtype(f"i{self.arrow.bit_width // 8}")
        bounds = [
            from_numbers(item.astype(width, copy=False), self.arrow)
            for item in (starts, ends, ends - 1)
        ]
        return self._batch([*batch.columns[: self.width], *bounds], batch.num_rows)

    def _batch(self, columns: list[pa.Array], num_rows: int) -> pa.RecordBatch:
        schema = pa.schema(
            [pa.field(name, item.type) for name, item in zip(self.names, columns, strict=True)]
        )
        return make_batch(columns, schema, num_rows)
