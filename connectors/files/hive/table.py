"""File mappings with Hive partitions.

A scan reads only the folders that the predicate allows; a sink writes each row to the folder of its
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import make_batch
from runnel.connector import (
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    Token,
    WritableTable,
    WriteMode,
)
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.format import (
    Batches,
    FileFormat,
    FileScanRequest,
    FileShare,
    files_now,
)
from runnel.connectors.files.hive.paths import (
    constant_column,
    folder_name,
    keys_of,
    matching_files,
    partition_values,
    selects_files,
)
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.sink import FileSink, SinkTarget, sink_target
from runnel.connectors.files.storage import DataFile
from runnel.connectors.files.table import (
    FilePartition,
    FileTable,
    LenientPartition,
    ReplacedFiles,
    divide,
)
from runnel.errors import ProgrammingError
from runnel.expressions.casts.cast import cast_datum
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Call, Column, Expression, columns_of, conjuncts, transform
from runnel.processor import JobContext
from runnel.sqltypes import BOOLEAN, VARCHAR, to_arrow

MOST_OPEN = 128
"""The maximum number of open folders. Before another folder is opened, the file of the oldest is
finished."""


@dataclass(frozen=True, slots=True)
class HivePartitioning:
    """The partition keys of a table.

    keys: the keys, in the order of the folders.
    columns: the index of the key, by the index of its column in the table.
    """

    keys: tuple[str, ...]
    columns: Mapping[int, int]


class HiveTable(FileTable):
    """Files in folders named key=value."""

    def __init__(
        self,
        name: str,
        columns: tuple[TableColumn, ...],
        file_format: FileFormat,
        path: FilePath,
        *,
        is_inferred: bool,
        partitioning: HivePartitioning,
    ) -> None:
        super().__init__(name, columns, file_format, path, is_inferred=is_inferred)
        self.partitioning = partitioning

    def scan(self, request: ScanRequest) -> Source:
        return HiveSource(self, request)

    def file_values(self, files: Sequence[DataFile]) -> list[pa.Array]:
        """The values of the columns that have one value for each file, in the order of
        `partitioning.columns`."""
        columns = [self.columns[i] for i in self.partitioning.columns]
        return partition_values(self.path, files, columns, list(self.partitioning.columns.values()))

    def evaluated(self, request: ScanRequest) -> tuple[Expression, ...]:
        """The conditions that select the folders."""
        return tuple(
            part
            for part in conjuncts(request.predicate)
            if selects_files(part, self.partitioning.columns)
        )

    def sink(self, request: SinkRequest) -> Sink:
        return PartitionedSink(self, request)

    def partitions(self) -> list[str] | None:
        found = {tuple(keys_of(self.path, file)) for file in files_now(self.path)}
        return sorted("/".join(f"{key}={value}" for key, value in items) for items in found)

    def replacing(self, partition: Mapping[str, str]) -> WritableTable:
        keys = self.partitioning.keys
        folders = frozenset[str]()
        if all(key.lower() in partition for key in keys):
            name = folder_name(keys, [partition[key.lower()] for key in keys])
            folders = frozenset({file_system.below(self.path.text, name)})
        return ReplacedFiles(self, folders)


class HiveSource(Source):
    """A scan of partitions."""

    cooperative = False

    def __init__(self, table: HiveTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request
        partitioned = table.partitioning.columns
        self._own = [i for i in range(len(table.columns)) if i not in partitioned]
        positions = {index: position for position, index in enumerate(self._own)}
        self._requested = [i for i in request.columns if i not in partitioned]
        self._inner_columns = tuple(positions[i] for i in self._requested)
        self._inner_predicate = columns_over(request.predicate, positions)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table, request = self._table, self._request
        partitioned = table.partitioning.columns
        files = table.path.files()
        values = table.file_values(files)
        positions = {index: position for position, index in enumerate(partitioned)}
        selected = matching_files(
            request.predicate, positions, values, len(files), context.evaluation
        )
        asked = FileScanRequest(
            self._inner_columns,
            tuple(table.columns[i] for i in self._own),
            self._inner_predicate,
            context.evaluation,
            request.limit if self._inner_predicate is request.predicate else None,
            table.is_inferred,
        )
        whole = FileScanRequest(request.columns, table.columns, evaluation=context.evaluation)
        numbers = {files[i].path: i for i in selected}
        known = {index: values[position] for index, position in positions.items()}
        shares = divide(table.format, [files[i] for i in selected])
        return [self._partition(share, asked, whole, known, numbers) for share in shares]

    def _partition(
        self,
        share: FileShare,
        asked: FileScanRequest,
        whole: FileScanRequest,
        known: Mapping[int, pa.Array],
        numbers: Mapping[str, int],
    ) -> FilePartition:
        table = self._table
        on_error = table.format.options.on_error
        if on_error.fails:
            return FilePartition(
                self._read(share, lambda share: table.format.read(share, asked), known, numbers),
                whole,
            )
        # Loaded on first use: most mappings fail on malformed records.
        from runnel.connectors.files.records.parsers import without_malformed

        malformed = Malformed(on_error, f'mapping "{table.name}"')
        return LenientPartition(
            self._read(
                share,
                lambda share: without_malformed(table.format, share, asked, malformed),
                known,
                numbers,
            ),
            whole,
            malformed,
        )

    def _read(
        self,
        share: FileShare,
        read: Callable[[FileShare], Batches],
        known: Mapping[int, pa.Array],
        numbers: Mapping[str, int],
    ) -> Batches:
        """The rows of a share's files, with the values of the folders in each."""
        columns = self._table.columns
        schema = pa.schema(
            [pa.field(columns[i].name, to_arrow(columns[i].type)) for i in self._request.columns]
        )
        for file in share.files:
            number = numbers[file.path]
            for batch in read(FileShare((file,), share.parts)):
                rows = batch.num_rows
                own = dict(zip(self._requested, batch.columns, strict=True))
                arrays = [
                    own[i] if i in own else constant_column(known[i], number, columns[i], rows)
                    for i in self._request.columns
                ]
                yield make_batch(arrays, schema, rows)


def columns_over(predicate: Expression | None, positions: Mapping[int, int]) -> Expression | None:
    """The conjuncts that use only columns of `positions`, with their new indexes; None if there
    is none."""
    usable = [part for part in conjuncts(predicate) if columns_of(part) <= set(positions)]
    if len(usable) == len(conjuncts(predicate)) and all(
        position == index for index, position in positions.items()
    ):
        return predicate

    def moved(node: Expression) -> Expression:
        if isinstance(node, Column):
            return Column(
                index=positions[node.index], name=node.name, type=node.type, position=node.position
            )
        return node

    parts = tuple(transform(part, moved) for part in usable)
    if len(parts) < 2:
        return parts[0] if parts else None
    return Call(function="and", arguments=parts, type=BOOLEAN)


class PartitionedSink(Sink):
    """Writes the rows of one execution, one file per folder.

    names: the names of new files, from the number of the file in its folder; None: new names.
    keeps_keys: whether the partition columns are also written to the files.
    """

    def __init__(
        self,
        table: HiveTable,
        request: SinkRequest,
        names: Callable[[int], str] | None = None,
        *,
        keeps_keys: bool = False,
    ) -> None:
        self._table = table
        self._names = names
        self._counts: dict[str, int] = {}
        self._written = list(range(len(table.columns))) if keeps_keys else _own_columns(table)
        self._columns = table.columns
        self._target = sink_target(table.path, table.format)
        if self._target.name is not None:
            raise ProgrammingError(
                f'rows can\'t be partitioned into "{table.path.text}"',
                hint="a partitioned mapping is on a folder",
            )
        by_key = sorted(table.partitioning.columns.items(), key=lambda pair: pair[1])
        self._keys = [table.partitioning.keys[key] for _, key in by_key]
        if len(by_key) < len(table.partitioning.keys):
            numbers = {number for _, number in by_key}
            missing = [key for i, key in enumerate(table.partitioning.keys) if i not in numbers]
            raise ProgrammingError(
                f'rows can\'t be written to "{table.path.text}": its partition keys are '
                f"{', '.join(table.partitioning.keys)}",
                hint="declare a column for each",
                detail=f"the mapping has no column for {', '.join(missing)}",
            )
        positions = {index: position for position, index in enumerate(request.columns)}
        self._key_positions = [(positions.get(index), self._columns[index]) for index, _ in by_key]
        self._own = [i for i in request.columns if i in self._written]
        self._own_positions = [positions[i] for i in self._own]
        self._owner = request.owner
        self._sinks: dict[str, FileSink] = {}
        self._renames: list[list[str]] = []
        self._staged: list[list[str]] = []

    def recover(self, tokens: Sequence[Token]) -> None:
        self._other().recover(tokens)

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        texts = [
            pa.nulls(batch.num_rows, pa.string())
            if position is None
            else _texts(batch.column(position), column)
            for position, column in self._key_positions
        ]
        rows = batch.select(self._own_positions)
        # Example: a table partitioned by one key, whose values are ["a", "b", "a"]. `groups` has
        # the columns "0" = ["a", "b", "a"] and "row" = [0, 1, 2]; `found` is {"0": "a", "row_list":
        # [0, 2]}, {"0": "b", "row_list": [1]}. So the folder of "a" gets the rows 0 and 2, and the
        # folder of "b" gets row 1.
        groups = pa.Table.from_arrays(
            [*texts, pa.arange(0, batch.num_rows)], names=[*map(str, range(len(texts))), "row"]
        )
        found = groups.group_by(list(map(str, range(len(texts)))), use_threads=False).aggregate(
            [("row", "list")]
        )
        for group in found.to_pylist():
            folder = folder_name(self._keys, [group[str(i)] for i in range(len(texts))])
            if len(found) == 1:
                self._sink(folder).write(rows)
            else:
                self._sink(folder).write(rows.take(pa.array(group["row_list"], pa.int64())))

    def _sink(self, folder: str) -> FileSink:
        sink = self._sinks.get(folder)
        if sink is None:
            if len(self._sinks) >= MOST_OPEN:
                self._finish(next(iter(self._sinks)))
            target = self._target
            number = self._counts.get(folder, 0)
            self._counts[folder] = number + 1
            name = None if self._names is None else self._names(number)
            inner = SinkTarget(
                file_system.below(target.folder, folder), name, target.suffix, target.compression
            )
            own_columns = self._written
            columns = tuple(self._columns[i] for i in own_columns)
            positions = {index: position for position, index in enumerate(own_columns)}
            request = SinkRequest(
                WriteMode.INSERT, tuple(positions[i] for i in self._own), self._owner
            )
            sink = self._sinks[folder] = FileSink(self._table.format, inner, columns, request)
        return sink

    def _finish(self, folder: str) -> None:
        self._renames += self._sinks.pop(folder).stage(0)["renames"]

    def stage(self, epoch: int) -> Token:
        for folder in list(self._sinks):
            self._finish(folder)
        renames, self._renames = self._renames, []
        self._staged += renames
        return {"renames": renames}

    def commit(self, token: Token) -> None:
        self._other().commit(token)
        self._staged = [item for item in self._staged if item not in token["renames"]]

    def abort(self, token: Token | None) -> None:
        if token is not None:
            self._other().abort(token)
        else:
            self.close()

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        self._sinks = {}
        renames = self._renames if self._owner else self._renames + self._staged
        self._renames, self._staged = [], []
        self._other().abort({"renames": renames})

    def _other(self) -> FileSink:
        """A sink that only handles tokens."""
        return FileSink(
            self._table.format,
            self._target,
            self._columns,
            SinkRequest(WriteMode.INSERT, (), self._owner),
        )


def _own_columns(table: HiveTable) -> list[int]:
    return [i for i in range(len(table.columns)) if i not in table.partitioning.columns]


def _texts(array: pa.Array, column: TableColumn) -> pa.Array:
    """Values as the folder names spell them."""
    if column.type == VARCHAR:
        return array
    return cast_datum(array, column.type, VARCHAR, EvaluationContext())
