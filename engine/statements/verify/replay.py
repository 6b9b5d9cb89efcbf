"""The tables of a job as they were at one instant: sources up to the positions in a snapshot, and a
sink as it is now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from runnel.catalog import Table
from runnel.connector import (
    End,
    EventTimeMark,
    Pause,
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
    Token,
)
from runnel.errors import ErrorCode, NotSupportedError, OperationalError
from runnel.processor import JobContext
from runnel.processors.sources.scan_state import SavedPartition, named

Beginnings = Mapping[str, Token]
"""The first positions of the partitions of a source, by the names of the partitions."""


class ReplayedTable(ReadableTable):
    """The rows of a table that a job has read.

    saved: the partitions in the snapshot; None: all rows were read.
    beginnings: the first positions of the partitions that it had at first.
    """

    def __init__(
        self,
        table: ReadableTable,
        saved: Mapping[str, SavedPartition] | None,
        beginnings: Beginnings,
    ) -> None:
        self.name = table.name
        self.connector = table.connector
        self.columns = table.columns
        self.reads_slowly = table.reads_slowly
        self._table = table
        self._saved = saved
        self._beginnings = beginnings

    def row_count(self) -> int | None:
        return None if self._table.is_unbounded else self._table.row_count()

    def scan(self, request: ScanRequest) -> Source:
        # Positions may count rows, which a predicate or a limit would leave out.
        whole = ScanRequest(request.columns)
        return _ReplayedSource(
            self._table.name, self._table.scan(whole), self._saved, self._beginnings
        )


class _ReplayedSource(Source):
    def __init__(
        self,
        name: str,
        source: Source,
        saved: Mapping[str, SavedPartition] | None,
        beginnings: Beginnings,
    ) -> None:
        self._name = name
        self._source = source
        self._saved = saved
        self._beginnings = beginnings
        self.cooperative = source.cooperative
        self.kind = source.kind

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        existing = named(self._source.split(context))
        found: list[SourcePartition] = []
        try:
            names = (
                list(existing)
                if self._saved is None
                else [name for name, item in self._saved.items() if item.is_begun]
            )
            for name in names:
                partition = existing.pop(name, None)
                if partition is None:
                    assert self._saved is not None
                    partition = self._source.reopen(
                        name, _source_position(self._saved[name]), context
                    )
                found.append(_QuietPartition(partition))
                self._limit(name, partition)
        except BaseException:
            for partition in found:
                partition.close()
            raise
        finally:
            for partition in existing.values():
                partition.close()
        return found

    def _limit(self, name: str, partition: SourcePartition) -> None:
        if self._source.traits.begins_anywhere:
            first = self._beginnings.get(name)
            if first is None:
                partition.begin_anew()
            else:
                partition.seek(first)
        item = None if self._saved is None else self._saved[name]
        if item is None or item.is_ended:
            return
        position = _source_position(item)
        if position is None:
            raise NotSupportedError(
                f'"{self._name}" can\'t be read again up to where the job is',
                hint=(
                    "VERIFY the job when it has ended, or read from a source that keeps its rows "
                    "(a file, a topic)"
                ),
            )
        partition.stop_at(position)


def _source_position(item: SavedPartition) -> Token | None:
    """The position in the source itself; a saved position may also contain the staged malformed
    records."""
    token = item.token
    return token["place"] if token is not None and "place" in token and "staged" in token else token


class _QuietPartition(SourcePartition):
    """A partition whose malformed records are discarded, because the job has reported them."""

    def __init__(self, partition: SourcePartition) -> None:
        self.identity = partition.identity
        self._partition = partition

    def open(self, wake: Callable[[], None]) -> None:
        self._partition.open(wake)

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        item = self._partition.read()
        self._partition.take_malformed()
        return item

    def close(self) -> None:
        self._partition.close()


class WrittenTable(ReadableTable):
    """The columns of its sink's table that a job writes, with the rows at the creation of this
    object. It can be scanned once; if it isn't, `close` releases the rows."""

    def __init__(self, table: Table, columns: Sequence[int], context: JobContext) -> None:
        if not isinstance(table, ReadableTable):
            raise _unreadable(table, f"connector {table.connector} only writes")
        self.name = table.name
        self.connector = table.connector
        self.columns = tuple(table.columns[i] for i in columns)
        source = table.scan(ScanRequest(tuple(columns)))
        if source.traits.is_live:
            raise _unreadable(table, "rows of a stream can be read only once")
        self._is_cooperative = source.cooperative
        if table.is_unbounded and type(source).split_so_far is Source.split_so_far:
            raise _unreadable(table, f"the rows of connector {table.connector} have no end")
        self._partitions: Sequence[SourcePartition] | None = source.split_so_far(context)

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return _WrittenSource(self, request.columns, self._is_cooperative)

    def take(self) -> Sequence[SourcePartition]:
        """The partitions, which the caller must close."""
        found, self._partitions = self._partitions, None
        assert found is not None, "a WrittenTable was scanned twice"
        return found

    def close(self) -> None:
        found, self._partitions = self._partitions, None
        for partition in found or ():
            partition.close()


class _WrittenSource(Source):
    def __init__(self, table: WrittenTable, columns: tuple[int, ...], is_cooperative: bool) -> None:
        self._table = table
        self._columns = list(columns)
        self.cooperative = is_cooperative

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [_Chosen(partition, self._columns) for partition in self._table.take()]


class _Chosen(_QuietPartition):
    """Some columns of a partition's rows."""

    def __init__(self, partition: SourcePartition, columns: list[int]) -> None:
        super().__init__(partition)
        self._columns = columns

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        item = super().read()
        return item.select(self._columns) if isinstance(item, pa.RecordBatch) else item


def check_retained(table: Table, name: str) -> None:
    """NotSupportedError if the rows that a job has read of a table can't be read again."""
    if not isinstance(table, ReadableTable):
        return
    source = table.scan(ScanRequest(()))
    if source.traits.is_live:
        raise NotSupportedError(
            f'job "{name}" can\'t be verified: what it has read of "{table.name}" is not stored',
            detail=f"a stream of connector {table.connector} returns each row once",
            hint=(
                "have one job write the stream to a file or a topic, "
                "and another one read it from there"
            ),
        )


def _unreadable(table: Table, why: str) -> OperationalError:
    return OperationalError(
        f'the rows of "{table.name}" can\'t be read back',
        code=ErrorCode.GENERIC,
        detail=why,
        hint="have the job write to a File, an IMap, a DuckDB table or a Kafka topic",
    )
