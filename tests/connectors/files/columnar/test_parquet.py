"""Parquet files: types, row groups that are left out, damaged files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runnel.catalog import TableColumn
from runnel.connector import ScanRequest
from runnel.connectors.files import table as file_table
from runnel.connectors.files.columnar.format import COUNTED_FILES
from runnel.connectors.files.columnar.row_groups import groups_to_read
from runnel.connectors.files.format import FileScanRequest
from runnel.errors import DataError, NotSupportedError, OperationalError, ProgrammingError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import scalar_of
from runnel.expressions.nodes import Call, Column, Expression, InList, Literal, Parameter
from runnel.sqltypes import BIGINT, BOOLEAN, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType, array
from tests.connectors.conformance import job_context, read_batches, read_partition, read_rows
from tests.connectors.files.cases import failure, mapping, schema, visible_rows, written


def parquet(path: Path, columns: dict[str, pa.Array], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_types_come_from_the_file(tmp_path: Path) -> None:
    columns = {
        "i": pa.array([1, None], pa.uint16()),
        "s": pa.array(["a", None], pa.large_string()).dictionary_encode(),
        "t": pa.array([datetime(2024, 1, 1), None], pa.timestamp("ms")),
        "l": pa.array([[{"x": 1}], None]),
        "a.b": pa.array([Decimal("1.50"), None]),
        "a": pa.array([{"b": 1}, None]),
    }
    table = mapping(parquet(tmp_path / "f.parquet", columns))
    assert schema(table) == {
        "i": "INTEGER",
        "s": "VARCHAR",
        "t": "TIMESTAMP",
        "l": "ROW(x BIGINT)[]",
        "a.b": "DECIMAL(3, 2)",
        "a": "ROW(b BIGINT)",
    }
    assert visible_rows(table) == [
        (1, "a", datetime(2024, 1, 1), [{"x": 1}], Decimal("1.50"), {"b": 1}),
        (None,) * 6,
    ]
    assert read_rows(table, [5, 4]) == [({"b": 1}, Decimal("1.50")), (None, None)]
    assert table.row_count() == 2


def test_files_of_different_types_are_united(tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet", {"a": pa.array([1], pa.int32()), "b": pa.array(["x"])})
    parquet(tmp_path / "2.parquet", {"A": pa.array([2**40]), "c": pa.array([1.5])})
    table = mapping(tmp_path)
    assert schema(table) == {"a": "BIGINT", "b": "VARCHAR", "c": "DOUBLE"}
    assert visible_rows(table) == [(1, "x", None), (2**40, None, 1.5)]


def test_declared_columns(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet", {"Price": pa.array(["1.5", "x"]), "n": pa.array([1, 2])})
    message, detail, _ = failure(
        DataError, lambda: visible_rows(mapping(path, [("price", DOUBLE)]))
    )
    assert message == "value 'x' doesn't fit column \"price\" of type DOUBLE"
    assert detail == f'file "{path}", row 2'
    message, _, hint = failure(ProgrammingError, lambda: mapping(path, [("pric", DOUBLE)]))
    assert (message, hint) == (f'column "pric" is not in file "{path}"', 'did you mean "Price"?')
    message, _, _ = failure(ProgrammingError, lambda: mapping(path, [("n", array(BIGINT))]))
    assert message == f'column "n" is declared as BIGINT[], but is BIGINT in file "{path}"'


def test_a_later_file_that_cant_be_cast(tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet", {"a": pa.array([1])})
    table = mapping(tmp_path)
    path = parquet(tmp_path / "2.parquet", {"a": pa.array([[1]])})
    message, _, _ = failure(DataError, lambda: visible_rows(table))
    assert message == f'column "a" is BIGINT, but BIGINT[] in file "{path}"'


@pytest.mark.parametrize("keep", [0, 3, 100, -5])
def test_damaged_files(tmp_path: Path, keep: int) -> None:
    path = parquet(tmp_path / "f.parquet", {"a": pa.arange(0, 1000)})
    path.write_bytes(path.read_bytes()[:keep])
    message, detail, hint = failure(OperationalError, lambda: mapping(path))
    assert message == f'file "{path}" can\'t be read as Parquet'
    assert detail
    assert hint == "the file is damaged, cut off or not yet finished"


def test_damage_inside(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet", {"a": pa.arange(0, 100_000)}, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[100:5000] = b"\x5a" * 4900
    path.write_bytes(data)
    table = mapping(path)
    message, _, _ = failure(OperationalError, lambda: visible_rows(table))
    assert message.startswith(f'file "{path}" can\'t be read')


def test_types_that_arent_supported(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet", {"a": pa.array([Decimal(1)], pa.decimal256(50, 0))})
    message, _, _ = failure(NotSupportedError, lambda: mapping(path))
    assert message.startswith(f'column "a" of file "{path}": ')


def test_counting_reads_the_footer_only(tmp_path: Path) -> None:
    table = mapping(
        parquet(tmp_path / "f.parquet", {"a": pa.arange(0, 200_000)}, row_group_size=70_000)
    )
    batches = read_batches(table, ())
    assert sum(batch.num_rows for batch in batches) == 200_000
    assert max(batch.num_rows for batch in batches) <= 65_536


def test_of_many_files_some_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        parquet(tmp_path / f"{number:02}.parquet", {"x": pa.array(range(number * 10))})
    asked: list[Any] = []
    metadata = pq.read_metadata

    def counted(path: Any) -> Any:
        asked.append(path)
        return metadata(path)

    monkeypatch.setattr(pq, "read_metadata", counted)
    about = mapping(tmp_path).row_count()
    assert about is not None and 0.7 < about / (10 * sum(range(50))) < 1.3
    assert 0 < len(asked) <= COUNTED_FILES


def test_large_files_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_table, "LARGE_BYTES", 1000)
    monkeypatch.setattr(file_table, "PARTITION_BYTES", 1000)
    table = mapping(
        parquet(tmp_path / "f.parquet", {"a": pa.arange(0, 10_000)}, row_group_size=500)
    )
    partitions = table.scan(ScanRequest((0,))).split(job_context())
    assert 1 < len(partitions) <= 20
    values = [
        value
        for part in partitions
        for batch in read_partition(part)
        for value in batch.column(0).to_pylist()
    ]
    assert values == list(range(10_000))


COLUMNS = (
    TableColumn("id", BIGINT),
    TableColumn("x", DOUBLE),
    TableColumn("s", VARCHAR),
    TableColumn("t", TIMESTAMP),
)
GROUPS = {
    "id": pa.array([*range(10), *range(10, 20), *[None] * 10, *range(20, 30)], pa.int64()),
    "x": pa.array([*[0.5] * 10, *[1.5] * 9, math.nan, *[2.5] * 10, *[None] * 10], pa.float64()),
    "s": pa.array(["a"] * 10 + ["b"] * 10 + ["é"] * 10 + ["z"] * 10),
    "t": pa.array([datetime(2024, 1, 1 + i // 10) for i in range(40)], pa.timestamp("us")),
}


def column(index: int) -> Column:
    return Column(type=COLUMNS[index].type, index=index, name=COLUMNS[index].name)


def literal(value: object, sql_type: SqlType) -> Literal:
    return Literal(type=sql_type, value=value)


def compare(function: str, left: Expression, right: Expression) -> Call:
    return Call(type=BOOLEAN, function=function, arguments=(left, right))


def both(*parts: Expression) -> Call:
    return Call(type=BOOLEAN, function="and", arguments=parts)


NOON = datetime(2024, 1, 2, 12)
PRUNED: list[tuple[Expression | None, Sequence[int]]] = [
    (None, [0, 1, 2, 3]),
    (compare("eq", column(0), literal(15, BIGINT)), [1]),
    (compare("lt", column(0), literal(10, BIGINT)), [0]),
    (compare("le", column(0), literal(10, BIGINT)), [0, 1]),
    (compare("gt", column(0), literal(19, BIGINT)), [3]),
    (compare("ge", column(0), literal(19, BIGINT)), [1, 3]),
    (compare("gt", literal(10, BIGINT), column(0)), [0]),
    (compare("ge", column(0), Parameter(type=BIGINT, index=0)), [3]),
    (compare("eq", column(0), literal(None, BIGINT)), []),
    (compare("ne", column(0), literal(1, BIGINT)), [0, 1, 2, 3]),
    (
        both(
            compare("ge", column(0), literal(5, BIGINT)),
            compare("lt", column(0), literal(12, BIGINT)),
        ),
        [0, 1],
    ),
    (
        InList(type=BOOLEAN, operand=column(0), values=(literal(3, BIGINT), literal(25, BIGINT))),
        [0, 3],
    ),
    # Greater than any number is NaN too, of which statistics know nothing.
    (compare("gt", column(1), literal(9.0, DOUBLE)), [0, 1, 2]),
    (compare("lt", column(1), literal(1.0, DOUBLE)), [0]),
    (compare("eq", column(1), literal(math.nan, DOUBLE)), [0, 1, 2]),
    (compare("eq", column(2), literal("é", VARCHAR)), [2]),
    (compare("gt", column(2), literal("bb", VARCHAR)), [2, 3]),
    (compare("ge", column(3), literal(NOON, TIMESTAMP)), [2, 3]),
]


@pytest.mark.parametrize(("predicate", "groups"), PRUNED, ids=str)
def test_row_groups_are_left_out(
    tmp_path: Path, predicate: Expression | None, groups: Sequence[int]
) -> None:
    path = parquet(tmp_path / "f.parquet", GROUPS, row_group_size=10)
    context = EvaluationContext((scalar_of(20, BIGINT),))
    asked = FileScanRequest((0,), COLUMNS, predicate, context)
    with pq.ParquetFile(path) as opened:
        assert groups_to_read(opened.metadata, opened.schema_arrow, asked, None) == groups
        assert groups_to_read(opened.metadata, opened.schema_arrow, asked, (1, 3)) == [
            i for i in groups if i in (1, 3)
        ]


def test_columns_of_another_type_leave_nothing_out(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet", {"id": pa.array(["1", "2", "10"])}, row_group_size=1)
    table = mapping(path, [("id", INTEGER)])
    predicate = compare("lt", Column(type=INTEGER, index=0, name="id"), literal(5, INTEGER))
    assert len(read_rows(table, [0], predicate=predicate)) == 3


def test_bz2_is_no_compression_of_parquet(tmp_path: Path) -> None:
    message, _, _ = failure(
        ProgrammingError,
        lambda: mapping(tmp_path, [("a", BIGINT)], format="parquet", compression="bz2"),
    )
    assert message == "format parquet has no compression bz2"


def test_what_isnt_parquet(tmp_path: Path) -> None:
    path = written(tmp_path / "f.parquet", "a,b\n1,2\n")
    assert failure(DataError, lambda: mapping(path))[0] == f'file "{path}" is text, not Parquet'
    path.write_bytes(b"a,b\0" * 10)
    assert (
        failure(OperationalError, lambda: mapping(path))[0]
        == f'file "{path}" can\'t be read as Parquet'
    )
