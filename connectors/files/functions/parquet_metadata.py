"""PARQUET_METADATA, PARQUET_SCHEMA, PARQUET_FILE_METADATA and PARQUET_KV_METADATA, with the columns
of DuckDB.

DuckDB reads the metadata from a temporary file that has the length and the footer of the original,
and no rows: the original may be in a storage that DuckDB does not know, and its path may be
confined.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from runnel.access import Access
from runnel.catalog import Table
from runnel.connectors.arrow.tables import registered_table
from runnel.connectors.files.input import reading
from runnel.connectors.files.paths import called_paths
from runnel.connectors.files.storage import DataFile, opened
from runnel.errors import DataError

PARQUET_METADATA = (
    "parquet_metadata",
    "parquet_schema",
    "parquet_file_metadata",
    "parquet_kv_metadata",
)
"""The names of the table functions."""

_TAIL = 8
"""The last bytes of a file: the length of the footer, and the letters PAR1."""


def parquet_metadata(
    function: str, positional: Sequence[Any], named: Mapping[str, Any], access: Access | None
) -> Table:
    """The table of a call: the rows of all files, in the order of the paths."""
    paths = called_paths(f"{function}('folder/*.parquet')", positional, named, access)
    found = [_rows(function, file, path.shown(file)) for path in paths for file in path.files()]
    return registered_table(function, pa.concat_tables(found))


def _rows(function: str, file: DataFile, name: str) -> pa.Table:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="runnel-parquet-") as folder:
        path = Path(folder, "footer.parquet")
        _copy_footer(file, path)
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            connection.execute("SET enable_progress_bar = false")
            try:
                rows = connection.sql(f"FROM {function}('{path}')").to_arrow_table()
            except duckdb.Error as error:
                raise _not_parquet(file) from error
    names = pa.array([name] * len(rows), pa.string())
    return _signed(rows.set_column(0, "file_name", names))


def _copy_footer(file: DataFile, path: Path) -> None:
    """Writes a file of the same length with the same footer, and a hole in place of the rows."""
    with reading(file.path), opened(file.path) as stream:
        size = stream.size()
        if size < 3 * 4:
            raise _not_parquet(file)
        stream.seek(size - _TAIL)
        tail = stream.read(_TAIL)
        length = int.from_bytes(tail[:4], "little") + _TAIL
        if tail[4:] != b"PAR1" or length > size:
            raise _not_parquet(file)
        stream.seek(size - length)
        footer = stream.read(length)
    with path.open("wb") as copy:
        copy.write(b"PAR1")
        copy.seek(size - length)
        copy.write(footer)


def _signed(rows: pa.Table) -> pa.Table:
    """The rows with BIGINT in place of DuckDB's unsigned integers."""
    fields = [
        field.with_type(pa.int64()) if pa.types.is_unsigned_integer(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def _not_parquet(file: DataFile) -> DataError:
    return DataError(
        f'file "{file.path}" is not a valid Parquet file',
        hint="correct the path, or write the file again",
    )
