"""PARQUET_METADATA and the functions like it, compared with DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from runnel.access import access_of
from runnel.connectors.files.functions.parquet_metadata import PARQUET_METADATA
from runnel.connectors.files.functions.table_functions import file_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = pa.table(
        {"a": [1, 2, None], "s": [{"x": 1.5}, None, {"x": 2.0}], "l": [["t"], [], None]}
    )
    pq.write_table(
        rows.replace_schema_metadata({"k": "v"}), tmp_path / "a.parquet", row_group_size=2
    )
    duckdb.sql(f"COPY (SELECT i, 'x' || i AS t FROM range(3000) r(i)) TO '{tmp_path}/b.parquet'")
    return tmp_path


@pytest.mark.parametrize("function", PARQUET_METADATA)
@pytest.mark.parametrize("name", ["a.parquet", "*.parquet"])
def test_rows_and_columns_are_the_ones_of_duckdb(folder: Path, function: str, name: str) -> None:
    sql = f"SELECT * FROM {function}('{folder}/{name}')"
    expected = duckdb.sql(sql)
    with runnel.connect() as connection:
        cursor = connection.execute(sql)
        assert [item[0] for item in cursor.description or ()] == expected.columns
        found = cursor.fetchall()
    assert [str(row) for row in found] == [str(row) for row in expected.fetchall()]


def test_a_list_of_files(folder: Path) -> None:
    sql = "SELECT num_rows FROM parquet_file_metadata(['{0}/b.parquet', '{0}/a.parquet'])"
    with runnel.connect() as connection:
        assert connection.execute(sql.format(folder)).fetchall() == [(3000,), (3,)]


def test_errors_name_the_file_and_the_remedy(folder: Path) -> None:
    (folder / "short.parquet").write_bytes(b"PAR1")
    (folder / "text.parquet").write_text("a,b\n" * 20)
    (folder / "broken.parquet").write_bytes(b"PAR1" + b"x" * 40 + b"\x14\0\0\0PAR1")
    with runnel.connect() as connection:
        for name in ("short", "text", "broken"):
            with pytest.raises(runnel.DataError, match="is not a valid Parquet file"):
                connection.execute(f"FROM parquet_metadata('{folder}/{name}.parquet')")
        with pytest.raises(runnel.OperationalError, match="not found"):
            connection.execute(f"FROM parquet_schema('{folder}/missing.parquet')")
        with pytest.raises(runnel.ProgrammingError, match="needs one path"):
            connection.execute("FROM parquet_schema(1)")


def test_bounds_of_access(folder: Path) -> None:
    inside = folder / "inside"
    inside.mkdir()
    (folder / "a.parquet").rename(inside / "a.parquet")
    (inside / "link.parquet").symlink_to(folder / "b.parquet")
    access = access_of([inside])
    file_table("parquet_schema", [str(inside / "a.parquet")], {}, access)
    for outside in (folder / "b.parquet", inside / "link.parquet"):
        with pytest.raises(runnel.Error):
            file_table("parquet_schema", [str(outside)], {}, access)
