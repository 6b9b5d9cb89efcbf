"""Arrow IPC files that others have written: types, both forms, parts, damage; and what INSERT
writes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, ipc

import runnel
from runnel import Connection, OperationalError, ProgrammingError
from runnel.sqltypes import BIGINT
from tests.connectors.files.cases import mapping, schema, visible_rows


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        yield connection


def written(
    path: Path, table: pa.Table, *, rows: int | None = None, compression: str | None = None
) -> Path:
    with ipc.new_file(
        str(path), table.schema, options=ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def select(con: Connection, path: Path, what: str = "*") -> list[tuple[object, ...]]:
    return con.execute(f"SELECT {what} FROM TABLE(ARROW_FILE('{path}'))").fetchall()


NUMBERS = pa.table(
    {
        "a": list(range(1000)),
        "b": [f"x{i % 7}" for i in range(1000)],
        "c": [i / 4 for i in range(1000)],
    }
)


@pytest.mark.parametrize("name", ["t.arrow", "t.feather", "t.ipc"])
def test_the_extension_tells_the_format(con: Connection, tmp_path: Path, name: str) -> None:
    written(tmp_path / name, pa.table({"a": [1, None], "b": ["x", "y"]}))
    con.execute(f"CREATE MAPPING t TYPE File OPTIONS ('path' = '{tmp_path}')")
    assert con.execute("SELECT b, a FROM t ORDER BY b").fetchall() == [("x", 1), ("y", None)]


def test_types_that_arrow_has_more_of_than_sql(con: Connection, tmp_path: Path) -> None:
    table = pa.table(
        {
            "d": pa.array(["x", None, "x"]).dictionary_encode(),
            "l": pa.array(["a", "b", None], pa.large_string()),
            "v": pa.array(["a", "longer than twelve bytes", None], pa.string_view()),
            "n": pa.array([1_500, 0, None], pa.timestamp("ms")),
            "u": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "h": pa.array([1, 2, None], pa.time32("s")),
            "i": pa.array([[1], [], None], pa.large_list(pa.int8())),
        }
    )
    path = written(tmp_path / "t.arrow", table)
    assert select(con, path) == [
        (
            "x",
            "a",
            "a",
            datetime(1970, 1, 1, 0, 0, 1, 500000),
            Decimal(2**64 - 1),
            time(0, 0, 1),
            [1],
        ),
        (
            None,
            "b",
            "longer than twelve bytes",
            datetime(1970, 1, 1),
            Decimal(0),
            time(0, 0, 2),
            [],
        ),
        ("x", None, None, None, None, None, None),
    ]


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_batches_are_dealt_out_and_only_wanted_columns_read(
    tmp_path: Path, compression: str | None
) -> None:
    table = mapping(written(tmp_path / "t.arrow", NUMBERS, rows=90, compression=compression))
    file = table.path.files()[0]
    shares = table.format.divide(file, 5)
    assert [share.parts for share in shares] == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11)]
    assert table.row_count() == 1000
    assert sorted(visible_rows(table)) == sorted(zip(*NUMBERS.to_pydict().values(), strict=True))


def test_counting_rows_needs_no_column(con: Connection, tmp_path: Path) -> None:
    path = written(tmp_path / "t.arrow", NUMBERS, rows=90)
    assert select(con, path, "COUNT(*), COUNT(b), MIN(c)") == [(1000, 1000, 0.0)]
    assert select(con, path, "1")[:2] == [(1,), (1,)]
    empty = written(tmp_path / "e.arrow", NUMBERS.slice(0, 0))
    assert select(con, empty) == []


def test_the_streaming_form_is_read_too(con: Connection, tmp_path: Path) -> None:
    path = tmp_path / "t.arrows"
    with ipc.new_stream(str(path), NUMBERS.schema) as writer:
        writer.write_table(NUMBERS, max_chunksize=300)
    assert select(con, path, "SUM(a), COUNT(*)") == [(499500, 1000)]
    table = mapping(path)
    assert table.row_count() is None
    assert len(table.format.divide(table.path.files()[0], 4)) == 1


def test_a_feather_file_of_pyarrow_is_one(con: Connection, tmp_path: Path) -> None:
    feather.write_feather(NUMBERS, str(tmp_path / "t.feather"))
    assert select(con, tmp_path / "t.feather", "MAX(a)") == [(999,)]


@pytest.mark.parametrize("kept", [0, 5, 200, 5000])
def test_a_file_that_was_cut_off_is_refused(con: Connection, tmp_path: Path, kept: int) -> None:
    whole = written(tmp_path / "t.arrow", NUMBERS, rows=90).read_bytes()
    path = tmp_path / "cut.arrow"
    path.write_bytes(whole[:kept])
    with pytest.raises(OperationalError, match=r'file ".*cut\.arrow" can\'t be read'):
        select(con, path)


def test_wrong_bytes_are_an_error_not_a_crash(con: Connection, tmp_path: Path) -> None:
    whole = bytearray(written(tmp_path / "t.arrow", NUMBERS.select(["b"])).read_bytes())
    batch = ipc.open_file(pa.py_buffer(bytes(whole))).get_batch(0)
    offsets = batch.column(0).buffers()[1].to_pybytes()
    at = bytes(whole).index(offsets)
    whole[at + 4 : at + 8] = (2**31 - 5).to_bytes(4, "little")
    path = tmp_path / "bad.arrow"
    path.write_bytes(whole)
    with pytest.raises(OperationalError, match="can't be read as Arrow IPC"):
        select(con, path, "MAX(b)")


def test_what_insert_writes_anyone_can_read(con: Connection, tmp_path: Path) -> None:
    con.execute(
        f"CREATE MAPPING t (a BIGINT, b VARCHAR, c ROW(x INT, y DOUBLE)) TYPE File "
        f"OPTIONS ('path' = '{tmp_path}/out', 'format' = 'arrow')"
    )
    assert (
        con.execute(
            "INSERT INTO t SELECT v, 'r' || v, NULL FROM GENERATE_SERIES(1, 100000) AS s (v)"
        ).rowcount
        == 100000
    )
    files = list((tmp_path / "out").iterdir())
    assert files and all(file.suffix == ".arrow" for file in files)
    tables = [ipc.open_file(str(file)).read_all() for file in files]
    assert sum(table.num_rows for table in tables) == 100000
    assert tables[0].schema.names == ["a", "b", "c"]
    assert con.execute("SELECT SUM(a), COUNT(b), COUNT(c) FROM t").fetchone() == (
        5000050000,
        100000,
        0,
    )


def test_declared_columns_are_checked_and_cast(con: Connection, tmp_path: Path) -> None:
    path = written(tmp_path / "t.arrow", pa.table({"a": ["1", "2"], "b": [1.0, 2.0]}))
    con.execute(f"CREATE MAPPING t (B DOUBLE, a INT) TYPE File OPTIONS ('path' = '{path}')")
    assert con.execute("SELECT * FROM t ORDER BY a").fetchall() == [(1.0, 1), (2.0, 2)]
    with pytest.raises(ProgrammingError, match='column "c" is not in file'):
        con.execute(f"CREATE MAPPING u (c INT) TYPE File OPTIONS ('path' = '{path}')")
    with pytest.raises(ProgrammingError, match="is declared as DATE, but is DOUBLE"):
        con.execute(f"CREATE MAPPING u (b DATE) TYPE File OPTIONS ('path' = '{path}')")


@pytest.mark.parametrize("compression", ["gz", "bz2"])
def test_a_compression_that_arrow_has_not_is_refused(compression: str) -> None:
    with pytest.raises(ProgrammingError, match=f"format arrow has no compression {compression}"):
        mapping("/nowhere", [("a", BIGINT)], format="arrow", compression=compression)


def test_the_schema_is_that_of_all_files(tmp_path: Path) -> None:
    written(tmp_path / "1.arrow", pa.table({"a": [1]}))
    written(tmp_path / "2.arrow", pa.table({"a": [2.5], "b": ["x"]}))
    table = mapping(tmp_path)
    assert schema(table) == {"a": "DOUBLE", "b": "VARCHAR"}
    assert sorted(visible_rows(table), key=str) == [(1.0, None), (2.5, "x")]
