"""The tables of a job as they were at one moment: sources up to the places that a snapshot kept,
and a sink as it is now."""

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
"""Where the partitions of a source were read first, by their names."""


class ReplayedTable(ReadableTable):
    """What a job has read of a table. `kept`: its partitions at the snapshot, None where all was
    read; `beginnings`: where it began to read those that it had at first."""

    def __init__(
        self,
        table: ReadableTable,
        kept: Mapping[str, SavedPartition] | None,
        beginnings: Beginnings,
    ) -> None:
        self.name = table.name
        self.connector = table.connector
        self.columns = table.columns
        self.reads_slowly = table.reads_slowly
        self._table = table
        self._kept = kept
        self._beginnings = beginnings

    def row_count(self) -> int | None:
        return None if self._table.is_unbounded else self._table.row_count()

    def scan(self, request: ScanRequest) -> Source:
        # Positions may count rows, which a predicate or a limit would leave out.
        whole = ScanRequest(request.columns)
        return _ReplayedSource(
            self._table.name, self._table.scan(whole), self._kept, self._beginnings
        )


class _ReplayedSource(Source):
    def __init__(
        self,
        name: str,
        source: Source,
        kept: Mapping[str, SavedPartition] | None,
        beginnings: Beginnings,
    ) -> None:
        self._name = name
        self._source = source
        self._kept = kept
        self._beginnings = beginnings
        self.cooperative = source.cooperative
        self.kind = source.kind

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        there = named(self._source.split(context))
        wanted: list[SourcePartition] = []
        try:
            names = (
                list(there)
                if self._kept is None
                else [name for name, item in self._kept.items() if item.is_begun]
            )
            for name in names:
                partition = there.pop(name, None)
                if partition is None:
                    assert self._kept is not None
                    partition = self._source.reopen(
                        name, _source_position(self._kept[name]), context
                    )
                wanted.append(_QuietPartition(partition))
                self._limit(name, partition)
        except BaseException:
            for partition in wanted:
                partition.close()
            raise
        finally:
            for partition in there.values():
                partition.close()
        return wanted

    def _limit(self, name: str, partition: SourcePartition) -> None:
        if self._source.traits.begins_anywhere:
            first = self._beginnings.get(name)
            if first is None:
                partition.begin_anew()
            else:
                partition.seek(first)
        item = None if self._kept is None else self._kept[name]
        if item is None or item.is_ended:
            return
        place = _source_position(item)
        if place is None:
            raise NotSupportedError(
                f'"{self._name}" can\'t be read again up to where the job is',
                hint=(
                    "VERIFY the job when it has ended, or read from a source that keeps its rows "
                    "(a file, a topic)"
                ),
            )
        partition.stop_at(place)


def _source_position(item: SavedPartition) -> Token | None:
    """The place in the source itself, where the position tells too what was staged of records that
    couldn't be read."""
    token = item.token
    return token["place"] if token is not None and "place" in token and "staged" in token else token


class _QuietPartition(SourcePartition):
    """A partition whose malformed records go nowhere: the job has told them."""

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
    """The columns that a job writes of its sink's table, with the rows that were there when this
    was made. It can be scanned once. `close` is for where it isn't."""

    def __init__(self, table: Table, columns: Sequence[int], context: JobContext) -> None:
        if not isinstance(table, ReadableTable):
            raise _unreadable(table, f"connector {table.connector} only writes")
        self.name = table.name
        self.connector = table.connector
        self.columns = tuple(table.columns[i] for i in columns)
        source = table.scan(ScanRequest(tuple(columns)))
        if source.traits.is_live:
            raise _unreadable(table, "what was written to a stream is gone when it is read")
        self._is_cooperative = source.cooperative
        if table.is_unbounded and type(source).split_so_far is Source.split_so_far:
            raise _unreadable(table, f"what connector {table.connector} gives has no end")
        self._partitions: Sequence[SourcePartition] | None = source.split_so_far(context)

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return _WrittenSource(self, request.columns, self._is_cooperative)

    def take(self) -> Sequence[SourcePartition]:
        """The partitions, which belong to who takes them."""
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
    """NotSupportedError where what a job has read of a table is kept nowhere."""
    if not isinstance(table, ReadableTable):
        return
    source = table.scan(ScanRequest(()))
    if source.traits.is_live:
        raise NotSupportedError(
            f'job "{name}" can\'t be verified: what it has read of "{table.name}" is not kept',
            detail=f"a stream of connector {table.connector} gives each row once",
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
