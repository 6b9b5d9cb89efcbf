"""SNIFF_CSV: what is found in CSV files, as a row."""

from __future__ import annotations

import pyarrow as pa

from runnel.catalog import Table
from runnel.connectors.arrow.tables import registered_table
from runnel.connectors.files.functions.reader_options import ReaderOptions
from runnel.connectors.files.options import text_literal
from runnel.connectors.files.table import FileTable

_COLUMN = pa.struct([pa.field("name", pa.string()), pa.field("type", pa.string())])
_SCHEMA = pa.schema(
    [
        pa.field("Delimiter", pa.string()),
        pa.field("Quote", pa.string()),
        pa.field("Escape", pa.string()),
        pa.field("SkipRows", pa.int64()),
        pa.field("HasHeader", pa.bool_()),
        pa.field("Columns", pa.list_(_COLUMN)),
        pa.field("DateFormat", pa.string()),
        pa.field("TimestampFormat", pa.string()),
        pa.field("DecimalSeparator", pa.string()),
        pa.field("Encoding", pa.string()),
        pa.field("UserArguments", pa.string()),
        pa.field("Prompt", pa.string()),
    ]
)


def sniffed_table(path: str, table: FileTable, asked: ReaderOptions) -> Table:
    """One row with the dialect and the columns of the table, and a query that reads it so."""
    options = table.format.options
    dialect = options.dialect
    shown = [column for column in table.columns if not column.hidden]
    columns = [{"name": column.name, "type": str(column.type)} for column in shown]
    arguments = ", ".join(f"{name}={text_literal(value)}" for name, value in asked.texts.items())
    values = {
        "Delimiter": dialect.delimiter,
        "Quote": dialect.quote,
        "Escape": dialect.escape or dialect.quote,
        "SkipRows": dialect.skip,
        "HasHeader": dialect.header,
        "Columns": columns,
        "DateFormat": dialect.date_format,
        "TimestampFormat": dialect.timestamp_format,
        "DecimalSeparator": dialect.decimal,
        "Encoding": options.encoding,
        "UserArguments": arguments,
    }
    values["Prompt"] = _prompt(path, values)
    arrays = [pa.array([values[field.name]], field.type) for field in _SCHEMA]
    batch = pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
    return registered_table("sniff_csv", pa.Table.from_batches([batch]))


def _prompt(path: str, found: dict[str, object]) -> str:
    """A query that has all options."""
    columns = found["Columns"]
    assert isinstance(columns, list)
    types = ", ".join(
        f"{text_literal(item['name'])}: {text_literal(item['type'])}" for item in columns
    )
    options = {
        "delim": found["Delimiter"],
        "quote": found["Quote"],
        "skip": found["SkipRows"],
        "header": found["HasHeader"],
        "encoding": found["Encoding"],
        "dateformat": found["DateFormat"],
        "timestampformat": found["TimestampFormat"],
        "decimal_separator": found["DecimalSeparator"],
    }
    listed = [
        f"{name}={str(value).lower() if isinstance(value, int) else text_literal(value)}"
        for name, value in options.items()
        if value is not None
    ]
    joined = ", ".join([text_literal(path), *listed, f"columns={{{types}}}"])
    return f"FROM read_csv({joined})"
