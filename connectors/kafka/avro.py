"""Avro payloads of Kafka messages: records without a header, with the schema of the mapping."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connectors.files.columnar.avro_schema import (
    columns_of_schema,
    fastavro_package,
    record_schema,
    to_record_values,
)
from runnel.connectors.files.conversion import convert_arrow, unfit
from runnel.connectors.files.format import external_name, match_names
from runnel.connectors.files.json.json_lines import unfit_places
from runnel.connectors.kafka.payloads import Messages, PayloadCodec, Payloads
from runnel.errors import DataError, OperationalError, ProgrammingError
from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import SqlType, to_arrow


def parsed_schema(text: str, option: str) -> Any:
    """The schema in an option."""
    try:
        return fastavro_package().parse_schema(json.loads(text))
    except OperationalError:
        raise
    except Exception as error:
        # fastavro raises exceptions of many classes for an invalid schema.
        raise ProgrammingError(
            f'option "{option}" is no Avro schema',
            detail=str(error) or type(error).__name__,
            hint="write it as JSON text",
        ) from error


def schema_columns(schema: Any, option: str) -> list[tuple[str, SqlType]]:
    """The columns of a schema."""
    return columns_of_schema(schema, f"option {option}")


class AvroCodec(PayloadCodec):
    """An Avro record; its fields are the columns.

    Without a schema, the schema of new Avro files with these columns is used.
    """

    def __init__(self, columns: Sequence[TableColumn], schema: Any) -> None:
        super().__init__(columns)
        fastavro = fastavro_package()
        self._schema = (
            fastavro.parse_schema(record_schema(columns)[1]) if schema is None else schema
        )
        self._natural = dict(columns_of_schema(self._schema, "the schema"))
        names = list(self._natural)
        positions = match_names([external_name(column) for column in columns], names)
        self._fields = [None if position is None else names[position] for position in positions]

    def decode(
        self, payloads: Payloads, requested: Sequence[int], messages: Messages
    ) -> list[pa.Array]:
        records = self._records(payloads, messages)
        arrays = []
        for index in requested:
            field, column = self._fields[index], self.columns[index]
            if field is None:
                arrays.append(pa.nulls(len(records), to_arrow(column.type)))
                continue
            values = [None if record is None else record.get(field) for record in records]
            arrays.append(self._column(values, (column, self._natural[field]), payloads, messages))
        return arrays

    def _records(self, payloads: Payloads, messages: Messages) -> list[dict[str, Any] | None]:
        read = fastavro_package().schemaless_reader
        records: list[dict[str, Any] | None] = []
        for index, payload in enumerate(payloads):
            record = None
            if payload is not None:
                stream = io.BytesIO(payload)
                try:
                    record = read(stream, self._schema, None)
                    if stream.tell() < len(payload):
                        raise ValueError(f"{len(payload) - stream.tell()} bytes follow the record")
                except Exception as error:
                    detail = str(error) or type(error).__name__
                    messages.leave_out(
                        index,
                        DataError("a record is not Avro of the schema", detail=detail),
                        payload,
                    )
                    record = None
            records.append(record)
        return records

    def _column(
        self,
        values: list[Any],
        column: tuple[TableColumn, SqlType],
        payloads: Payloads,
        messages: Messages,
    ) -> pa.Array:
        target, natural = column

        def convert(part: Sequence[Any]) -> pa.Array:
            return convert_arrow(array_of(part, natural), target.type)

        bad = unfit_places(values, convert)
        for index in bad:
            messages.leave_out(
                index,
                unfit(values[index], target.name, target.type, None, is_inferred=False),
                payloads[index],
            )
            values[index] = None
        return convert(values)

    def encode(self, arrays: Sequence[pa.Array]) -> list[bytes | None]:
        write = fastavro_package().schemaless_writer
        lists = [
            to_record_values(array, column.type)
            for array, column in zip(arrays, self.columns, strict=True)
        ]
        found: list[bytes | None] = []
        for row in zip(*lists, strict=True):
            stream = io.BytesIO()
            record = {
                name: value
                for name, value in zip(self._fields, row, strict=True)
                if name is not None
            }
            try:
                write(stream, self._schema, record)
            except Exception as error:
                raise DataError(
                    "a row doesn't fit the Avro schema", detail=str(error) or type(error).__name__
                ) from error
            found.append(stream.getvalue())
        return found
