"""Registered objects, each kind through the conformance suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from runnel.connector import ReadableTable
from runnel.connectors.arrow.tables import registered_table
from runnel.sqltypes import JSON, Kind
from tests.connectors.conformance import VALUES, Columns, ReadingConformance, Row, batch_of

# Arrow has no JSON text type of its own that tells it from VARCHAR.
ARROW_TYPES = tuple(item for item in VALUES if item != JSON)


class RegisteredConformance(ReadingConformance):
    types = ARROW_TYPES

    def filled(self, path: Path, columns: Columns, rows: Sequence[Row]) -> ReadableTable:
        table = registered_table(
            "t", self.object_of(path, pa.Table.from_batches([batch_of(columns, rows)]))
        )
        assert isinstance(table, ReadableTable)
        return table

    def object_of(self, path: Path, table: Any) -> Any:
        raise NotImplementedError


class TestTable(RegisteredConformance):
    def object_of(self, path: Path, table: Any) -> Any:
        return table


class TestSmallChunks(RegisteredConformance):
    def object_of(self, path: Path, table: Any) -> Any:
        return pa.Table.from_batches(table.to_batches(max_chunksize=700), schema=table.schema)


class TestRecordBatch(RegisteredConformance):
    def object_of(self, path: Path, table: Any) -> Any:
        return (
            table.to_batches()[0]
            if table.num_rows
            else pa.RecordBatch.from_pylist([], schema=table.schema)
        )


class TestReader(RegisteredConformance):
    repeatable = False

    def object_of(self, path: Path, table: Any) -> Any:
        return table.to_reader()


class TestDataset(RegisteredConformance):
    types = tuple(item for item in ARROW_TYPES if item.kind is not Kind.INTERVAL)

    def object_of(self, path: Path, table: Any) -> Any:
        pq.write_table(table, path / "t.parquet")
        return pyarrow.dataset.dataset(path / "t.parquet")


POLARS_TYPES = tuple(
    item
    for item in ARROW_TYPES
    if item.kind not in (Kind.MAP, Kind.DECIMAL, Kind.TIMESTAMP_TZ) or item.precision == 38
)


class TestPolars(RegisteredConformance):
    types = POLARS_TYPES

    def object_of(self, path: Path, table: Any) -> Any:
        return pl.from_arrow(table)


class TestLazyPolars(RegisteredConformance):
    types = POLARS_TYPES

    def object_of(self, path: Path, table: Any) -> Any:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame.lazy()


class Stream:
    """All that the PyCapsule interface asks for."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class TestStream(RegisteredConformance):
    def object_of(self, path: Path, table: Any) -> Any:
        return Stream(table)


class TestPandas(RegisteredConformance):
    types = tuple(item for item in ARROW_TYPES if not item.is_nested)

    def object_of(self, path: Path, table: Any) -> Any:
        import pandas as pd

        return table.to_pandas(types_mapper=pd.ArrowDtype)
