"""What a scan saves of its partitions, and how it finds its way back to where they were.

A row per partition: its name, its position, what it has promised. Every processor of the scan is
given all rows at a restore, and takes those of the partitions that it was dealt: so parallelism may
change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.connector import Source, SourcePartition, Token
from runnel.errors import ErrorCode, OperationalError
from runnel.expressions.kernels.buffers import pack
from runnel.processor import ExpiredPosition, JobContext
from runnel.sqltypes import BIGINT, BOOLEAN, VARCHAR

SCHEMA = pa.schema(
    [
        pa.field("partition", pa.string()),
        pa.field("position", pa.string()),
        pa.field("is_begun", pa.bool_()),
        pa.field("is_ended", pa.bool_()),
        pa.field("watermark", pa.int64()),
        pa.field("is_idle", pa.bool_()),
    ]
)
"""The state of a scan. `is_begun`: something was read; `watermark` is NULL where there is none."""

_TYPES = (VARCHAR, VARCHAR, BOOLEAN, BOOLEAN, BIGINT, BOOLEAN)


@frozen
class SavedPartition:
    """A partition as it was at the snapshot."""

    partition: str
    position: str | None = None
    is_begun: bool = False
    is_ended: bool = False
    watermark: int | None = None
    is_idle: bool = False

    @property
    def token(self) -> Token | None:
        return None if self.position is None else cast("Token", json.loads(self.position))


def encode(saved: Sequence[SavedPartition]) -> pa.RecordBatch:
    columns: tuple[list[Any], ...] = (
        [item.partition for item in saved],
        [item.position for item in saved],
        [item.is_begun for item in saved],
        [item.is_ended for item in saved],
        [item.watermark for item in saved],
        [item.is_idle for item in saved],
    )
    arrays = [pack(values, kind) for values, kind in zip(columns, _TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def decode(batch: pa.RecordBatch) -> list[SavedPartition]:
    """The partitions; an earlier version may not have saved all columns."""
    return [
        SavedPartition(
            row["partition"],
            row.get("position"),
            row.get("is_begun", False),
            row.get("is_ended", False),
            row.get("watermark"),
            row.get("is_idle", False),
        )
        for row in batch.to_pylist()
    ]


def place_of(partition: SourcePartition) -> str | None:
    """Where reading is, as text."""
    token = partition.position()
    return None if token is None else json.dumps(token, ensure_ascii=False)


def skip_expired(
    error: OperationalError, partition: SourcePartition | None, context: JobContext
) -> int:
    """Where that error says that a position has expired, and the job is to go on all the same: has
    the partition (None: it is no longer there) do so, tells it, and gives how many rows are known
    to be left out. Else raises the error."""
    if (
        error.code is not ErrorCode.POSITION_EXPIRED
        or context.expired_position is ExpiredPosition.FAIL
    ):
        raise error
    if partition is None:
        where, rows = "without it", None
    else:
        skipped = partition.skip_to(context.expired_position)
        where, rows = f"at {skipped.place}", skipped.rows
    if context.tell is not None:
        told = error.message if error.detail is None else f"{error.message} ({error.detail})"
        count = "nobody knows how many rows are" if rows is None else f"{rows} rows are"
        context.tell(f"{told}; reading goes on {where}, {count} left out")
    return rows or 0


Restored = tuple[str, SourcePartition, SavedPartition | None]
"""The name of a partition, the partition at its place, and what was saved of it (None: it is
new)."""


class ScanShare:
    """What one processor was dealt of a source that was split: `partitions`, called `names`.
    `everything` are the names of all partitions of the source."""

    __slots__ = (
        "_context",
        "_everything",
        "_source",
        "is_lasting",
        "names",
        "partitions",
        "skipped",
    )

    def __init__(
        self,
        source: Source,
        context: JobContext,
        named: dict[str, SourcePartition],
        everything: frozenset[str],
    ) -> None:
        self._source = source
        self._context = context
        self._everything = everything
        self.is_lasting = source.is_repeatable or source.is_live
        self.names = list(named)
        self.partitions = list(named.values())
        self.skipped = 0

    def restored(
        self, saved: Sequence[SavedPartition], index: int, parallelism: int
    ) -> list[Restored]:
        """The partitions that processor `index` goes on with. Those that have ended are closed and
        left out."""
        known = {item.partition: item for item in saved}
        found: list[Restored] = []
        for name, partition in zip(self.names, self.partitions, strict=True):
            item = known.get(name)
            if item is None and (not known or self._source.may_grow):
                if known:
                    partition.begin_anew()
                found.append((name, partition, None))
            elif item is None or item.is_ended:
                partition.close()
            else:
                self._go_on(partition, item)
                found.append((name, partition, item))
        gone = sorted(
            item.partition
            for item in saved
            if not item.is_ended and item.partition not in self._everything
        )
        for name in gone[index::parallelism]:
            reopened = self._reopened(known[name])
            if reopened is not None:
                found.append((name, reopened, known[name]))
        return found

    def skip(self, error: OperationalError, partition: SourcePartition | None) -> None:
        """Goes on after a position that has expired if the job is to; else raises the error."""
        self.skipped += skip_expired(error, partition, self._context)

    def _go_on(self, partition: SourcePartition, item: SavedPartition) -> None:
        token = item.token
        if token is not None:
            try:
                partition.seek(token)
            except OperationalError as error:
                self.skip(error, partition)
        elif item.is_begun and not self._source.is_live:
            raise OperationalError(
                f"{self._source.kind} can't be read again from where the snapshot was taken",
                code=ErrorCode.GENERIC,
                detail=f'partition "{item.partition}" was partly read, and has no positions',
                hint=(
                    "drop the job and create it anew, "
                    "or read from a source that keeps its rows (a file, a topic)"
                ),
            )

    def _reopened(self, item: SavedPartition) -> SourcePartition | None:
        """A partition that the source is no longer divided into; None where the job goes on without
        it."""
        try:
            partition = self._source.reopen(item.partition, item.token, self._context)
        except OperationalError as error:
            self.skip(error, None)
            return None
        try:
            self._go_on(partition, item)
        except BaseException:
            partition.close()
            raise
        return partition


def named(partitions: Sequence[SourcePartition]) -> dict[str, SourcePartition]:
    """Partitions by their names; one without a name has its number."""
    found: dict[str, SourcePartition] = {}
    for number, partition in enumerate(partitions):
        name = partition.identity or str(number)
        found[name if name not in found else f"{name}#{number}"] = partition
    return found
