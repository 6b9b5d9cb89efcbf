"""The contract of a file format: infer columns, read files, write a file. One subclass per
format."""

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
"""Total size in bytes up to which all files are read to infer their columns; of larger ones, a
sample of this size is read."""

SAMPLE_FILES = 64
"""The number of files, evenly spread, in a sample."""


Batches = Generator[pa.RecordBatch, None, None]
"""Batches that are read on demand. Closing the generator closes the files."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column that was found in files.

    name: as in the file.
    type: the SQL type that its values have in the file.
    """

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class FileScanRequest:
    """The request of a scan.

    columns: indexes in `table_columns`, in the requested order.
    table_columns: all columns of the table, for formats in which the position counts.
    predicate: a condition over the table's columns; applying it is optional.
    evaluation: the context in which to evaluate the predicate.
    limit: the number of rows after which the reader may stop; None for all.
    is_inferred: whether the types were inferred rather than declared, which errors report.
    """

    columns: tuple[int, ...]
    table_columns: tuple[TableColumn, ...]
    predicate: Expression | None = None
    evaluation: EvaluationContext = field(default_factory=EvaluationContext)
    limit: int | None = None
    is_inferred: bool = False

    @property
    def requested(self) -> tuple[TableColumn, ...]:
        return tuple(self.table_columns[i] for i in self.columns)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.requested]


@dataclass(frozen=True, slots=True)
class FileShare:
    """The data that one partition reads.

    files: the files, read one after the other.
    `parts`: the numbers of the chunks of the file to read, in units of the format (row groups,
        record batches); None for whole files.
    """

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
        """The columns of the files, merged by name, in the order in which they occur first.

        Reads a sample. An error names the file that cannot be read. There is at least one file.
        """

    @abstractmethod
    def read(self, share: FileShare, asked: FileScanRequest) -> Batches:
        """The rows, in batches of any size, in canonical Arrow types.

        A generator: it opens nothing before the first batch is requested, and closing it closes the
        files.
        """

    @abstractmethod
    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        """A writer of a new file with these columns."""

    def check_written(self, columns: Sequence[TableColumn]) -> None:
        """Fails if this format cannot write a column of such a type."""

    def check_declared(self, columns: Sequence[TableColumn], files: Sequence[DataFile]) -> None:
        """Fails if this format cannot read the declared columns, or if no file has them."""

    def divide(self, file: DataFile, chunks: int) -> list[FileShare]:
        """A large file as about this number of shares; as one share if the format cannot divide
        it."""
        return [FileShare((file,))]

    def hidden_columns(self) -> tuple[TableColumn, ...]:
        """Columns in addition to the columns of the files, which `*` does not select."""
        return ()

    def row_count(self, path: FilePath) -> int | None:
        """The number of rows of the files, if it is cheap to find; else None."""
        return None


def files_now(path: FilePath) -> list[DataFile]:
    """The current files; having none is no error, since a sink may write them later."""
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
        f'the columns of "{definition.name}" can\'t be inferred: {where}',
        hint="name them: read_csv('…', columns = {'a': 'INTEGER', …})"
        if file_format.options.in_query
        else f"declare them: CREATE MAPPING {as_written(definition.name)} (column type, …) …",
    )


def sample_of(files: Sequence[DataFile]) -> list[DataFile]:
    """The files from which columns are inferred: all if they are few, else an evenly spread
    sample."""
    if len(files) <= SAMPLE_FILES:
        return list(files)
    return [files[i * len(files) // SAMPLE_FILES] for i in range(SAMPLE_FILES)]


def external_name(column: TableColumn) -> str:
    """The name of a column in the files."""
    return column.name if column.external_name is None else column.external_name


def match_names(requested: Sequence[str], found: Sequence[str]) -> list[int | None]:
    """The index in `found` of each requested name; None for a name that is missing.

    The exact name is preferred to one that differs in case.
    """
    exact: dict[str, int] = {}
    folded: dict[str, int] = {}
    for i, name in enumerate(found):
        exact.setdefault(name, i)
        folded.setdefault(name.lower(), i)
    return [exact.get(name, folded.get(name.lower())) for name in requested]


def format_name_of(path: str, files: Sequence[DataFile], *, in_query: bool = False) -> str:
    """The format that the extensions of the files, or of the path, imply.

    ProgrammingError if they imply none, or several. `in_query`: as in FileOptions.
    """
    known = (
        {format_of(Path(file.path).name) for file in files}
        if files
        else {format_of(Path(path).name)}
    )
    if len(known) == 1:
        only = known.pop()
        if only is not None:
            return only
    said = "have different extensions" if len(known) > 1 else "has no extension of a known format"
    raise ProgrammingError(
        f'the format of "{path}" is not known: it {said}'
        if len(known) < 2
        else f'the files of "{path}" {said}',
        hint="name it: read_csv('…'), read_json, read_parquet, read_arrow, read_avro or read_lines"
        if in_query
        else "add OPTIONS ('format' = 'csv'), or json, parquet, arrow, avro, lines",
    )


def batch_of(arrays: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """A batch that has its number of rows even without columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), names=list(names))
    return empty_columns(rows)
