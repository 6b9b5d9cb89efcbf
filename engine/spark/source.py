"""The data source "runnel", which Spark calls in the Python processes of driver and executors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runnel.errors import NotSupportedError, as_written
from runnel.spark.request import NAME, ReadRequest, plainly, request_of


class RunnelDataSource(DataSource):
    """The data source. Spark creates one from the options in each process that needs it.

    defaults: options that `register` set; options of a read or write override them.
    """

    defaults: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        return NAME

    def _request(self) -> ReadRequest:
        return request_of(dict(self.options), self.defaults)

    @plainly
    def schema(self) -> StructType:
        request = self._request()
        with request.server.connect() as con, con.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {request.rows} LIMIT 0", request.arguments)
            return spark_schema(cursor.fetch_record_batch().schema)

    @plainly
    def reader(self, schema: StructType) -> Any:
        from runnel.spark.reader import Reader

        return Reader(self._request(), schema)

    @plainly
    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        from runnel.spark.reader import StreamReader

        return StreamReader(self._request(), schema)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from runnel.spark.writer import Writer

        return Writer(self._request(), schema, uuid4().hex, overwrite=overwrite)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        from runnel.spark.writer import MicroBatchWriter

        return MicroBatchWriter(self._request(), schema, uuid4().hex, overwrite=overwrite)


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema of a result in Spark's types; NotSupportedError for TIME."""
    for field in schema:
        if pa.types.is_time(field.type):
            raise NotSupportedError(
                f'column "{field.name}" is of type TIME, which most of Spark doesn\'t support',
                hint=f"read CAST({as_written(field.name)} AS VARCHAR)",
            )
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
