"""What a file format does: it finds out columns and reads files. One subclass per format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import empty_columns
from runnel.connector import MappingDefinition
from runnel.connectors.files.options import FileOptions, format_of
from runnel.connectors.files.output import FileOutput, RowWriter
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.storage import DataFile
from runnel.errors import ProgrammingError, as_written
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Expression
from runnel.sqltypes import SqlType

SMALL_BYTES = 4 << 20
"""Files of at most this size in all are read whole to find out their columns; of larger ones a
sample of this size."""

SAMPLE_FILES = 64
"""From how many files, evenly spread, a sample is taken."""


Batches = Generator[pa.RecordBatch, None, None]
"""Batches that are read as they are asked for. Closing it closes the files."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column that was found in files."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class Reading:
    """What a scan reads: columns of the table in the order wanted; `table_columns` are all, for
    formats where the position counts. The predicate (over the table's columns) is advice.
    `is_inferred`: the types were found out by us, not declared, which errors should say."""

    columns: tuple[int, ...]
    table_columns: tuple[TableColumn, ...]
    predicate: Expression | None = None
    evaluation: EvaluationContext = field(default_factory=EvaluationContext)
    limit: int | None = None
    is_inferred: bool = False

    @property
    def wanted(self) -> tuple[TableColumn, ...]:
        return tuple(self.table_columns[i] for i in self.columns)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.wanted]


@dataclass(frozen=True, slots=True)
class FileShare:
    """What one partition reads: some files, and of a file cut into parts (`parts`, in the format's
    own units) some."""

    files: tuple[DataFile, ...]
    parts: tuple[int, ...] | None = None


class FileFormat(ABC):
    """One format, with the options of one mapping."""

    name: str
    is_text = True
    """Whether its files are text, which may be compressed as a whole."""

    def __init__(self, options: FileOptions) -> None:
        self.options = options

    @abstractmethod
    def discover(self, files: Sequence[DataFile]) -> tuple[FileColumn, ...]:
        """The columns of the files, united by name in the order they are met. Reads a sample; names
        the file that can't be read. At least one file is given."""

    @abstractmethod
    def read(self, share: FileShare, asked: Reading) -> Batches:
        """The rows, in batches of any size, in canonical Arrow types. A generator: nothing is
        opened before the first batch is asked for, and closing it closes the files."""

    @abstractmethod
    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        """A writer of a new file with these columns."""

    def check_declared(self, columns: Sequence[TableColumn], files: Sequence[DataFile]) -> None:
        """Fails where declared columns can't be read from this format, or are in none of the
        files."""

    def divide(self, file: DataFile, pieces: int) -> list[FileShare]:
        """A large file cut into about so many shares, if the format can."""
        return [FileShare((file,))]

    def hidden_columns(self) -> tuple[TableColumn, ...]:
        """Columns beside those found in the files, which are not part of `*`."""
        return ()

    def row_count(self, path: FilePath) -> int | None:
        """How many rows the files have, if that can be told cheaply."""
        return None


def files_now(path: FilePath) -> list[DataFile]:
    """The files that are there; none is no error, since a sink may write them later."""
    return replace(path, ignore_missing=True).files()


def discovered(
    definition: MappingDefinition,
    path: FilePath,
    file_format: FileFormat,
    files: Sequence[DataFile],
) -> tuple[TableColumn, ...]:
    """The columns of the files of a mapping that declares none."""
    why = "has no files"
    if files:
        columns = tuple(TableColumn(item.name, item.type) for item in file_format.discover(files))
        if columns:
            return columns
        why = "are empty"
    where = f'"{path.text}" {why}' if not files else f'the files of "{path.text}" {why}'
    raise ProgrammingError(
        f'the columns of "{definition.name}" can\'t be found out: {where}',
        hint=f"declare them: CREATE MAPPING {as_written(definition.name)} (column type, …) …",
    )


def sample_of(files: Sequence[DataFile]) -> list[DataFile]:
    """The files from which columns are found out: all if they are few, else some evenly spread."""
    if len(files) <= SAMPLE_FILES:
        return list(files)
    return [files[i * len(files) // SAMPLE_FILES] for i in range(SAMPLE_FILES)]


def external_name(column: TableColumn) -> str:
    """What a column is called in the files."""
    return column.name if column.external_name is None else column.external_name


def match_names(wanted: Sequence[str], found: Sequence[str]) -> list[int | None]:
    """Where each wanted column is among those of a file: by its exact name, else without regard to
    case; None where it isn't there."""
    exact: dict[str, int] = {}
    folded: dict[str, int] = {}
    for i, name in enumerate(found):
        exact.setdefault(name, i)
        folded.setdefault(name.lower(), i)
    return [exact.get(name, folded.get(name.lower())) for name in wanted]


def format_name_of(path: str, files: Sequence[DataFile]) -> str:
    """The format that the path's or the files' extensions tell; ProgrammingError where they don't,
    or not with one voice."""
    known = (
        {format_of(Path(file.path).name) for file in files}
        if files
        else {format_of(Path(path).name)}
    )
    if len(known) == 1:
        only = known.pop()
        if only is not None:
            return only
    said = (
        "have different extensions" if len(known) > 1 else "has no extension that tells its format"
    )
    raise ProgrammingError(
        f'the format of "{path}" is not known: it {said}'
        if len(known) < 2
        else f'the files of "{path}" {said}',
        hint="add OPTIONS ('format' = 'csv'), or json, parquet, arrow, avro, lines",
    )


def batch_of(arrays: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """A batch that knows its number of rows even without columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), names=list(names))
    return empty_columns(rows)
