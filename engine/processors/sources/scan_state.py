"""The state of a scan, and the restore of its partitions.

The state has one row per partition: its name, its position and its watermark. On a restore every
processor of the scan is given all rows, and uses the rows of its own partitions. Therefore the
parallelism may change.
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
from runnel.watermarks import LeastWatermark

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
"""The columns of the state of a scan, as the fields of SavedPartition."""

_TYPES = (VARCHAR, VARCHAR, BOOLEAN, BOOLEAN, BIGINT, BOOLEAN)


@frozen
class SavedPartition:
    """The state of a partition in a snapshot.

    partition: the name of the partition.
    position: the position as JSON text; None if it has none.
    is_begun: whether something was read.
    is_ended: whether it was read to its end.
    watermark: its watermark; None if it has none.
    is_idle: whether it was idle.
    """

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
    """Encode the state of partitions as a batch."""
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
    """Decode a batch of `encode`; a batch of an earlier version may lack some columns."""
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


def position_text(partition: SourcePartition) -> str | None:
    """Return the position of a partition as JSON text; None if it has none."""
    token = partition.position()
    return None if token is None else json.dumps(token, ensure_ascii=False)


def skip_expired(
    error: OperationalError, partition: SourcePartition | None, context: JobContext
) -> int:
    """Skip an expired position if the job allows it; else raise the error.

    The skip is reported to the job. Returns the number of rows that are known to be skipped.

    error: the error of the read.
    partition: the partition; None: it no longer exists.
    """
    if (
        error.code is not ErrorCode.POSITION_EXPIRED
        or context.expired_position is ExpiredPosition.FAIL
    ):
        raise error
    if partition is None:
        where, rows = "without it", None
    else:
        skipped = partition.skip_to(context.expired_position)
        where, rows = f"at {skipped.position}", skipped.rows
    if context.tell is not None:
        report = error.message if error.detail is None else f"{error.message} ({error.detail})"
        count = "an unknown number of rows is" if rows is None else f"{rows} rows are"
        context.tell(f"{report}; reading resumes {where}, {count} skipped")
    return rows or 0


Restored = tuple[str, SourcePartition, SavedPartition | None]
"""The name of a partition, the partition at its position, and its saved state (None: it is new)."""


class ScanShare:
    """The partitions of a source that belong to one processor.

    source: the source.
    context: the job.
    named: the partitions by name.
    everything: the names of all partitions of the source.
    least: the watermark of all processors of the source; None: each has its own.
    is_lasting: whether the source can be read again after a restart, or is live.
    is_cooperative: whether the partitions never block.
    skipped: the number of rows that were skipped because a position had expired.
    """

    __slots__ = (
        "_context",
        "_everything",
        "_source",
        "is_cooperative",
        "is_lasting",
        "least",
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
        least: LeastWatermark | None = None,
    ) -> None:
        self.least = least
        self._source = source
        self._context = context
        self._everything = everything
        self.is_lasting = source.traits.is_repeatable or source.traits.is_live
        self.is_cooperative = source.cooperative
        self.names = list(named)
        self.partitions = list(named.values())
        self.skipped = 0

    @property
    def has_siblings(self) -> bool:
        """Whether the source has several partitions, in whichever processors."""
        return len(self._everything) > 1

    def restored(
        self, saved: Sequence[SavedPartition], index: int, parallelism: int
    ) -> list[Restored]:
        """Return the partitions with which processor `index` resumes.

        Partitions that have ended are closed and left out. Partitions into which the source is no
        longer divided are reopened and distributed among the processors.

        saved: the saved state of all partitions.
        """
        known = {item.partition: item for item in saved}
        found: list[Restored] = []
        for name, partition in zip(self.names, self.partitions, strict=True):
            item = known.get(name)
            if item is None and (not known or self._source.traits.may_grow):
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
        """Like `skip_expired`, and count the skipped rows."""
        self.skipped += skip_expired(error, partition, self._context)

    def _go_on(self, partition: SourcePartition, item: SavedPartition) -> None:
        token = item.token
        if token is not None:
            try:
                partition.seek(token)
            except OperationalError as error:
                self.skip(error, partition)
        elif item.is_begun and not self._source.traits.is_live:
            raise OperationalError(
                f"{self._source.kind} can't be read again from where the snapshot was taken",
                code=ErrorCode.GENERIC,
                detail=f'partition "{item.partition}" was partly read, and has no positions',
                hint=(
                    "drop the job and create it again, "
                    "or read from a source that retains its rows (a file, a topic)"
                ),
            )

    def _reopened(self, item: SavedPartition) -> SourcePartition | None:
        """Reopen a partition into which the source is no longer divided.

        Returns None if the job continues without it.
        """
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
    """Return partitions by their names; the name of a partition without identity is its number."""
    found: dict[str, SourcePartition] = {}
    for number, partition in enumerate(partitions):
        name = partition.identity or str(number)
        found[name if name not in found else f"{name}#{number}"] = partition
    return found
