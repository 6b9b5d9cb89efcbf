"""File mappings of each format through the conformance suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from runnel.connector import ColumnDefinition as Definition
from runnel.connector import Connector, MappingDefinition, ReadableTable
from runnel.connectors.files.connector import FileConnector
from runnel.sqltypes import JSON, VARBINARY, Kind, SqlType
from tests.connectors.conformance import (
    PEOPLE,
    VALUES,
    Columns,
    OptionsConformance,
    ReadingConformance,
    Row,
    WritingConformance,
    batch_of,
)

SCALARS = tuple(
    item for item in VALUES if not item.is_nested and not item.is_interval and item != VARBINARY
)


class FileConformance(WritingConformance):
    options: ClassVar[Mapping[str, str]] = {}
    types: Sequence[SqlType] = SCALARS

    def empty(self, path: Path, columns: Columns) -> Any:
        definitions = tuple(Definition(name, item) for name, item in columns)
        options = {"path": str(path / "rows"), "ignoreFileNotFound": "true", **self.options}
        return FileConnector().open(MappingDefinition("t", definitions, options))


class TestCsv(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "csv"}


class TestCsvWithoutHeader(FileConformance):
    options: ClassVar[Mapping[str, str]] = {
        "format": "csv",
        "header": "false",
        "delimiter": "\t",
        "nullValue": "NULL",
        "compression": "gz",
    }


class TestCsvWithEscape(FileConformance):
    options: ClassVar[Mapping[str, str]] = {
        "format": "csv",
        "delimiter": "-",
        "quote": "'",
        "escape": "\\",
    }


class TestJson(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "json"}
    # The JSON value null and SQL's NULL are written alike.
    types = tuple(
        item for item in (*SCALARS, *(key for key in VALUES if key.is_nested)) if item != JSON
    )


class TestCompressedJson(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "json-flat", "compression": "zst"}
    types = tuple(item for item in SCALARS if item != JSON)


class TestParquet(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "parquet"}
    types = tuple(VALUES)


class TestArrow(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "arrow"}
    types = tuple(VALUES)


class TestCompressedArrow(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "arrow", "compression": "zst"}
    types = tuple(VALUES)


class TestAvro(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "avro"}
    types = tuple(item for item in VALUES if not item.is_interval)


class TestCompressedAvro(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "avro", "compression": "none"}
    types = ()

    test_batches_are_short_and_canonical = None  # of 66,000 rows: as above


class PartitionedConformance(FileConformance):
    """A folder for each score."""

    types = ()

    test_batches_are_short_and_canonical = None  # of 66,000 folders


class TestPartitionedCsv(PartitionedConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "csv", "partitionBy": "score"}


class TestPartitionedParquet(PartitionedConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "parquet", "partitionBy": "score"}


class TestFileOptions(OptionsConformance):
    known_option = "delimiter"

    def connector(self, path: Path) -> Connector:
        return FileConnector()

    def definition(self, path: Path) -> MappingDefinition:
        columns = tuple(Definition(name, item) for name, item in PEOPLE)
        return MappingDefinition("t", columns, {"path": str(path / "f.csv"), "delimiter": ";"})


class TestInferredParquet(ReadingConformance):
    types = tuple(item for item in VALUES if item.kind not in (Kind.JSON, Kind.INTERVAL))

    def filled(self, path: Path, columns: Columns, rows: Sequence[Row]) -> ReadableTable:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(
            pa.Table.from_batches([batch_of(columns, rows)]),
            path / "t.parquet",
            row_group_size=7000,
        )
        table = FileConnector().open(MappingDefinition("t", (), {"path": str(path)}))
        assert isinstance(table, ReadableTable)
        return table
