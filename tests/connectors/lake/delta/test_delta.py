"""TYPE Delta: what the library writes is read, what we write the library reads, and what can't be
read rightly is refused."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import Table
from runnel.connector import ColumnDefinition as Definition
from runnel.connector import Connector, MappingDefinition
from runnel.connectors.lake.delta.connector import DeltaConnector
from runnel.connectors.lake.delta.log import load
from runnel.errors import (
    DataError,
    IntegrityError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from runnel.sqltypes import Kind
from tests.connectors.conformance import (
    PEOPLE,
    VALUES,
    Columns,
    OptionsConformance,
    WritingConformance,
)
from tests.sinks.durable_conformance import DurableConformance

deltalake = pytest.importorskip("deltalake", reason="needs deltalake: pip install 'runnel[delta]'")

TYPES = tuple(item for item in VALUES if item.kind not in (Kind.TIME, Kind.INTERVAL))


def opened(path: Path, columns: Columns = PEOPLE, **options: str) -> Table:
    definitions = tuple(Definition(name, item) for name, item in columns)
    return DeltaConnector().open(
        MappingDefinition("t", definitions, {"path": str(path), "create": "true", **options})
    )


class TestDelta(WritingConformance):
    types = TYPES

    def empty(self, path: Path, columns: Columns) -> Any:
        return opened(path / "t", columns)


class TestPartitionedDelta(WritingConformance):
    types = ()

    def empty(self, path: Path, columns: Columns) -> Any:
        return opened(path / "t", columns, partitionBy="name")

    test_batches_are_short_and_canonical = None  # of 66,000 folders


class TestDurableDelta(DurableConformance):
    seeds = 3

    def reopened(self, path: Path) -> Any:
        return opened(path / "t")

    def traces(self, path: Path) -> list[str]:
        table = path / "t"
        known = {str(Path(item)) for item in deltalake.DeltaTable(str(table)).file_uris()}
        return [str(item) for item in table.rglob("*.parquet") if str(item) not in known]


class TestDurablePartitionedDelta(TestDurableDelta):
    def reopened(self, path: Path) -> Any:
        return opened(path / "t", partitionBy="name")


class TestDeltaOptions(OptionsConformance):
    known_option = "pollMillis"

    def connector(self, path: Path) -> Connector:
        return DeltaConnector()

    def definition(self, path: Path) -> MappingDefinition:
        columns = tuple(Definition(name, item) for name, item in PEOPLE)
        options = {"path": str(path / "t"), "create": "true", "follow": "true", "pollMillis": "10"}
        return MappingDefinition("t", columns, options)


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        yield made


def write(path: Path, rows: dict[str, Any] | pa.Table, **more: Any) -> None:
    deltalake.write_deltalake(
        str(path), rows if isinstance(rows, pa.Table) else pa.table(rows), mode="append", **more
    )


def mapping(con: runnel.Connection, path: Path, name: str = "t", **options: str) -> None:
    given = ", ".join(
        f"'{key}' = '{value}'" for key, value in {"path": str(path), **options}.items()
    )
    con.execute(f"CREATE OR REPLACE MAPPING {name} TYPE Delta OPTIONS ({given})")


def taken(cursor: runnel.Cursor, count: int) -> list[Any]:
    """So many rows of a stream."""
    return [cursor.fetchone() for _ in range(count)]


def files_read(
    con: runnel.Connection, sql: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, list[tuple[Any, ...]]]:
    """How many data files a query opens, and its rows."""
    from runnel.connectors.lake import table as lake_table

    read: set[str] = set()
    whole = lake_table.read_files

    def watched(table: Any, files: Any, parts: Any, asked: Any) -> Any:
        read.update(file.file.path for file in files)
        return whole(table, files, parts, asked)

    with monkeypatch.context() as patch:
        patch.setattr(lake_table, "read_files", watched)
        rows = con.execute(sql).fetchall()
    return len(read), rows


def test_columns_come_from_the_table_and_rows_go_both_ways(
    con: runnel.Connection, tmp_path: Path
) -> None:
    write(tmp_path / "t", {"id": [1, 2], "name": ["a", None]})
    mapping(con, tmp_path / "t")
    assert con.execute("SELECT * FROM t ORDER BY id").fetchall() == [(1, "a"), (2, None)]
    assert con.execute("INSERT INTO t VALUES (3, 'c'), (4, NULL)").rowcount == 2
    found = deltalake.DeltaTable(str(tmp_path / "t"))
    assert found.version() == 1
    assert sorted(found.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])[2:] == [
        {"id": 3, "name": "c"},
        {"id": 4, "name": None},
    ]


@pytest.mark.parametrize(
    ("condition", "files", "rows"),
    [
        ("id = 15", 1, 1),
        ("id >= 10 AND id < 20", 1, 10),
        ("id IN (5, 25)", 2, 2),
        ("id > 100", 0, 0),
        ("name = 'n7'", 1, 1),
        ("at >= TIMESTAMP '2024-01-03 00:00:00.000999'", 1, 10),
        ("at = TIMESTAMP '2024-01-02 00:00:00.000999'", 1, 10),
        ("x > 1e300", 3, 3),
        ("id IS NULL", 3, 0),
    ],
)
def test_files_are_left_out_by_their_statistics(
    con: runnel.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    files: int,
    rows: int,
) -> None:
    for part in range(3):
        ids = list(range(part * 10, part * 10 + 10))
        moment = datetime(2024, 1, part + 1, 0, 0, 0, 999)
        write(
            tmp_path / "t",
            {
                "id": ids,
                "name": [f"n{i}" for i in ids],
                "at": pa.array([moment] * 10, pa.timestamp("us")),
                "x": [float("nan") if i % 10 == 0 else float(i) for i in ids],
            },
        )
    mapping(con, tmp_path / "t")
    read, found = files_read(con, f"SELECT id FROM t WHERE {condition}", monkeypatch)
    assert read <= files if "name" in condition else read == files, read
    assert len(found) == rows


def test_files_are_left_out_by_their_partitions_and_by_a_limit(
    con: runnel.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    write(
        path,
        {"id": list(range(9)), "p": ["a/b %", None, "ü="] * 3, "n": [1, 2, 3] * 3},
        partition_by=["p", "n"],
    )
    mapping(con, path)
    assert files_read(con, "SELECT id FROM t WHERE p = 'a/b %' ORDER BY id", monkeypatch) == (
        1,
        [(0,), (3,), (6,)],
    )
    assert files_read(con, "SELECT count(*) FROM t WHERE p IS NULL", monkeypatch) == (1, [(3,)])
    assert files_read(
        con, "SELECT id, p FROM t WHERE n BETWEEN 3 AND 5 AND id > 3 ORDER BY id", monkeypatch
    ) == (
        1,
        [(5, "ü="), (8, "ü=")],
    )
    count, rows = files_read(con, "SELECT p FROM t LIMIT 2", monkeypatch)
    assert (count, len(rows)) == (1, 2)


def test_versions_and_moments(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for i in range(3):
        write(path, {"id": [i]})
    stamps = {
        entry["version"]: entry["timestamp"] for entry in deltalake.DeltaTable(str(path)).history()
    }
    mapping(con, path, "first", version="0")
    moment = datetime.fromtimestamp(stamps[1] / 1000, UTC)
    mapping(con, path, "second", timestamp=moment.isoformat())
    assert con.execute("SELECT count(*) FROM first").fetchone() == (1,)
    expected = max(version for version, stamp in stamps.items() if stamp <= stamps[1]) + 1
    assert con.execute("SELECT count(*) FROM second").fetchone() == (expected,)
    with pytest.raises(OperationalError, match="has no version 7"):
        mapping(con, path, version="7")
    with pytest.raises(OperationalError, match="has no version of 2001") as caught:
        mapping(con, path, timestamp="2001-01-01 00:00:00")
    assert "its log begins at" in (caught.value.hint or "")
    with pytest.raises(ProgrammingError, match="exclude each other"):
        mapping(con, path, timestamp="2001-01-01", version="1")
    with pytest.raises(ProgrammingError, match="can't be written to version 0"):
        con.execute("INSERT INTO first VALUES (1)")


def test_a_version_stays_what_it_was(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, {"id": [1, 2, 3]})
    mapping(con, path, version="0")
    deltalake.DeltaTable(str(path)).delete("id = 2")
    assert con.execute("SELECT sum(id) FROM t").fetchone() == (6,)
    mapping(con, path, "now")
    assert con.execute("SELECT sum(id) FROM now").fetchone() == (4,)


def test_columns_that_are_added_later_are_null_before(
    con: runnel.Connection, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write(path, {"id": [1]})
    mapping(con, path, "old")
    write(path, {"id": [2], "more": ["x"]}, schema_mode="merge")
    mapping(con, path)
    assert con.execute("SELECT id, more FROM t ORDER BY id").fetchall() == [(1, None), (2, "x")]
    assert con.execute("SELECT * FROM old ORDER BY id").fetchall() == [(1,), (2,)]


def test_a_column_that_changed_since_is_told(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, {"id": [1], "name": ["a"]})
    mapping(con, path)
    deltalake.write_deltalake(
        str(path), pa.table({"id": ["x"], "other": [1]}), mode="overwrite", schema_mode="overwrite"
    )
    for sql in ("SELECT id FROM t", "INSERT INTO t VALUES (1, 'b')"):
        with pytest.raises(OperationalError, match="were changed since CREATE MAPPING") as caught:
            con.execute(sql).fetchall()
        assert 'column "id" is string now and was int64' in (caught.value.detail or "")


def test_declared_columns(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, {"Id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]})
    con.execute(
        "CREATE MAPPING t (label VARCHAR EXTERNAL NAME name, id BIGINT) TYPE Delta "
        f"OPTIONS ('path' = '{path}')"
    )
    assert con.execute("SELECT * FROM t WHERE id = 2").fetchall() == [("b", 2)]
    with pytest.raises(
        ProgrammingError, match='column "id" is INTEGER there, and declared as BIGINT'
    ):
        con.execute("INSERT INTO t VALUES ('c', 3)")
    with pytest.raises(ProgrammingError, match='column "nam" is not in the Delta table') as caught:
        con.execute(f"CREATE MAPPING u (nam VARCHAR) TYPE Delta OPTIONS ('path' = '{path}')")
    assert '"name"' in (caught.value.hint or "")
    with pytest.raises(ProgrammingError, match="is declared as DATE, but is INTEGER"):
        con.execute(f"CREATE MAPPING u (id DATE) TYPE Delta OPTIONS ('path' = '{path}')")


def test_what_is_no_table(con: runnel.Connection, tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="is no Delta table") as caught:
        mapping(con, tmp_path / "nothing")
    assert "'create' = 'true'" in (caught.value.hint or "")
    with pytest.raises(ProgrammingError, match="can't be created without columns"):
        mapping(con, tmp_path / "nothing", create="true")
    with pytest.raises(
        NotSupportedError, match=r'at "s3://u:\*\*\*\*@t" .+ only tables of the local file system'
    ):
        con.execute("CREATE MAPPING t TYPE Delta OPTIONS ('path' = 's3://u:hidden@t')")
    with pytest.raises(NotSupportedError, match="decodes % and two digits as another character"):
        mapping(con, tmp_path / "a%20b", create="true")
    with pytest.raises(
        NotSupportedError, match="can't be created: all its columns are partition columns"
    ) as caught:
        options = f"'path' = '{tmp_path}/x', 'create' = 'true', 'partitionBy' = 'b, a'"
        con.execute(f"CREATE MAPPING t (a INTEGER, b VARCHAR) TYPE Delta OPTIONS ({options})")
    assert '"partitionBy"' in (caught.value.hint or "")
    assert not (tmp_path / "x").exists()
    with pytest.raises(NotSupportedError, match="have no type TIME"):
        con.execute(
            f"CREATE MAPPING t (a TIME) TYPE Delta OPTIONS ('path' = '{tmp_path}/x', "
            "'create' = 'true')"
        )


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def deletion_vector(rows: list[int]) -> dict[str, Any]:
    """An inline deletion vector, as the protocol describes it: a Roaring bitmap in Z85."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(
        f"<{len(rows)}H", *rows
    )
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    padded = data + b"\0" * (-len(data) % 4)
    text = ""
    for start in range(0, len(padded), 4):
        number = int.from_bytes(padded[start : start + 4], "big")
        text += "".join(_DIGITS[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def append_version(path: Path, *actions: dict[str, Any]) -> None:
    log = path / "_delta_log"
    number = max(int(item.stem) for item in log.glob("*.json")) + 1
    (log / f"{number:020d}.json").write_text(
        "".join(json.dumps(action) + "\n" for action in actions)
    )


def with_deleted(path: Path, rows: list[int]) -> None:
    """Deletes rows of the only file by a deletion vector."""
    lines = (path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    add = next(json.loads(line)["add"] for line in lines if '"add"' in line)
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True, "size": add["size"]}
    commit = {"timestamp": int(time.time() * 1000), "operation": "DELETE"}
    append_version(
        path,
        {"commitInfo": commit},
        {"remove": remove},
        {"add": {**add, "deletionVector": deletion_vector(rows)}},
    )


def test_rows_that_a_deletion_vector_deletes_are_gone(
    con: runnel.Connection, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    ids = pa.table({"id": list(range(10))})
    write(path, ids, configuration={"delta.enableDeletionVectors": "true"})
    with_deleted(path, [1, 3])
    mapping(con, path)
    assert [row[0] for row in con.execute("SELECT id FROM t ORDER BY id")] == [
        0,
        2,
        4,
        5,
        6,
        7,
        8,
        9,
    ]
    assert con.execute("SELECT count(*) FROM t").fetchone() == (8,)
    assert con.execute("SELECT id FROM t WHERE id > 7 ORDER BY id").fetchall() == [(8,), (9,)]
    assert con.execute("SELECT count(*) FROM (SELECT id FROM t LIMIT 9)").fetchone() == (8,)
    con.execute("INSERT INTO t VALUES (10)")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (9,)


def test_what_a_reader_must_know_and_we_do_not_is_refused(
    con: runnel.Connection, tmp_path: Path
) -> None:
    mapped = tmp_path / "mapped"
    write(mapped, {"id": [1]}, configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(NotSupportedError, match="readers that know columnMapping"):
        mapping(con, mapped)
    newer = tmp_path / "newer"
    write(newer, {"id": [1]})
    mapping(con, newer)
    append_version(
        newer,
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["odd"],
                "writerFeatures": ["odd"],
            }
        },
    )
    with pytest.raises((NotSupportedError, OperationalError), match=r"odd|can't be read"):
        con.execute("SELECT * FROM t").fetchall()


def test_what_a_writer_must_know_and_we_do_not_is_refused(
    con: runnel.Connection, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write(path, {"id": [1]})
    mapping(con, path)
    deltalake.DeltaTable(str(path)).alter.add_constraint({"small": "id < 5"})
    with pytest.raises(NotSupportedError, match=r"delta\.constraints\.small"):
        con.execute("INSERT INTO t VALUES (9)")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_null_where_a_column_is_required(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    deltalake.DeltaTable.create(str(path), schema)
    mapping(con, path)
    with pytest.raises(IntegrityError, match='column "id" can\'t be NULL'):
        con.execute("INSERT INTO t VALUES (NULL, 'a')")
    con.execute("INSERT INTO t VALUES (1, 'a')")
    con.execute(f"CREATE MAPPING part (name VARCHAR) TYPE Delta OPTIONS ('path' = '{path}')")
    with pytest.raises(NotSupportedError, match='its column "id" can\'t be NULL'):
        con.execute("INSERT INTO part VALUES ('b')")
    assert con.execute("SELECT * FROM t").fetchall() == [(1, "a")]


def test_the_empty_text_is_no_partition(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    con.execute(
        "CREATE MAPPING t (id BIGINT, p VARCHAR) TYPE Delta "
        f"OPTIONS ('path'='{path}', 'create'='true', 'partitionBy'='p')"
    )
    with pytest.raises(DataError, match="the empty text can't be a value of partition column"):
        con.execute("INSERT INTO t VALUES (1, '')")
    assert load(str(path)).version() == 0
    assert list(path.rglob("*.parquet")) == []


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DATE", ["DATE '0001-01-01'", "DATE '2024-02-29'", "NULL"]),
        (
            "TIMESTAMP",
            ["TIMESTAMP '2024-01-01 01:02:03.000004'", "TIMESTAMP '1969-12-31 23:59:59'", "NULL"],
        ),
        ("TIMESTAMP WITH TIME ZONE", ["TIMESTAMP WITH TIME ZONE '2024-01-01 01:02:03.5+01:00'"]),
        ("DECIMAL(9, 2)", ["1.50", "0.00", "NULL"]),
        ("BOOLEAN", ["true", "false", "NULL"]),
        ("BIGINT", ["-9223372036854775808", "7"]),
        ("VARCHAR", ["'ä/ü %20 = ''x'", "'a:b'", "NULL", "' '"]),
    ],
)
def test_partition_values_are_read_back(
    con: runnel.Connection, tmp_path: Path, kind: str, values: list[str]
) -> None:
    path = tmp_path / "t"
    con.execute(
        f"CREATE MAPPING t (id BIGINT, p {kind}) TYPE Delta "
        f"OPTIONS ('path'='{path}', 'create'='true', 'partitionBy'='p')"
    )
    rows = ", ".join(f"({i}, {value})" for i, value in enumerate(values))
    con.execute(f"INSERT INTO t VALUES {rows}")
    expected = con.execute(f"SELECT * FROM (VALUES {rows}) AS v(id, p) ORDER BY id").fetchall()
    assert con.execute("SELECT * FROM t ORDER BY id").fetchall() == expected
    theirs = (
        deltalake.DeltaTable(str(path)).to_pyarrow_table().sort_by("id").column("p").to_pylist()
    )
    assert theirs == [value for _, value in expected]
    for i, value in enumerate(values):
        if value != "NULL":
            assert con.execute(f"SELECT id FROM t WHERE p = {value}").fetchall() == [(i,)]
    mapping(con, path, "f", follow="true")
    cursor = con.cursor()
    cursor.execute("SELECT * FROM f")
    first = sorted(taken(cursor, len(values)))
    con.execute(f"INSERT INTO t SELECT id + 100, p FROM (VALUES {rows}) AS v(id, p)")
    second = sorted(taken(cursor, len(values)))
    cursor.close()
    assert first == expected
    assert second == [(number + 100, value) for number, value in expected]


def test_a_moment_as_a_partition_value_has_its_zone(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = f"'path' = '{path}', 'create' = 'true', 'partitionBy' = 'p'"
    con.execute(
        f"CREATE MAPPING t (id BIGINT, p TIMESTAMP WITH TIME ZONE) TYPE Delta OPTIONS ({options})"
    )
    con.execute("INSERT INTO t VALUES (1, TIMESTAMP WITH TIME ZONE '2024-01-01 01:02:03.5+01:00')")
    lines = (path / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    add = next(json.loads(line)["add"] for line in lines if '"add"' in line)
    assert add["partitionValues"] == {"p": "2024-01-01T00:02:03.500000Z"}
    # Other writers leave it out.
    copy(next(path.rglob("*.parquet")), path / "copy.parquet")
    append_version(
        path,
        {"add": {**add, "path": "copy.parquet", "partitionValues": {"p": "2024-01-01 00:02:03.5"}}},
    )
    mapping(con, path, "f", follow="true", version="0")
    cursor = con.execute("SELECT * FROM f")
    moment = datetime(2024, 1, 1, 0, 2, 3, 500_000, UTC)
    assert taken(cursor, 2) == con.execute("SELECT * FROM t").fetchall() == [(1, moment)] * 2
    cursor.close()


def test_a_stream_gives_each_version_in_order(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, {"id": [0]})
    write(path, {"id": [1]})
    mapping(con, path, follow="true", pollMillis="1")
    cursor = con.cursor()
    cursor.execute("SELECT id FROM t WHERE id <> 3")
    assert sorted(taken(cursor, 2)) == [(0,), (1,)]
    for i in range(2, 6):
        write(path, {"id": [i]})
    deltalake.DeltaTable(str(path)).optimize.compact()
    write(path, {"id": [6]})
    assert taken(cursor, 4) == [(2,), (4,), (5,), (6,)], "compaction gives nothing"
    cursor.close()


def test_a_log_may_hold_any_text(con: runnel.Connection, tmp_path: Path) -> None:
    text = "two\u2028lines\x85of text"
    write(tmp_path / "t", {"id": [0]})
    mapping(con, tmp_path / "t", follow="true", pollMillis="1")
    cursor = con.cursor()
    cursor.execute("SELECT id FROM t")
    write(
        tmp_path / "t", {"id": [1], "text": [text]}, schema_mode="merge"
    )  # is in the log, as the file's largest value
    assert taken(cursor, 2) == [(0,), (1,)]
    cursor.close()


def test_what_fails_behind_a_commit_is_no_failure(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    con.execute(
        f"CREATE MAPPING t (id BIGINT) TYPE Delta OPTIONS ('path' = '{path}', 'create' = 'true')"
    )
    table = deltalake.DeltaTable(str(path))
    table.alter.set_table_properties({"delta.checkpointInterval": "1"})
    (path / "_delta_log" / f"{table.version() + 1:020}.checkpoint.parquet").mkdir()
    assert con.execute("INSERT INTO t VALUES (7)").rowcount == 1
    assert con.execute("SELECT * FROM t").fetchall() == [(7,)]


def test_a_stream_begins_with_the_version_that_is_named(
    con: runnel.Connection, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    for i in range(4):
        write(path, {"id": [i]})
    mapping(con, path, follow="true", version="1")
    cursor = con.cursor()
    cursor.execute("SELECT id FROM t")
    found = taken(cursor, 4)
    assert (sorted(found[:2]), found[2:]) == ([(0,), (1,)], [(2,), (3,)])
    cursor.close()


@pytest.mark.parametrize(
    ("choice", "expected"), [("skip", [(5,)]), ("additions", [(1,), (3,), (5,)])]
)
def test_a_stream_over_a_delete(
    con: runnel.Connection, tmp_path: Path, choice: str, expected: list[Any]
) -> None:
    path = tmp_path / "t"
    write(path, {"id": [1, 2, 3]})
    mapping(con, path, "strict", follow="true", pollMillis="1")
    mapping(con, path, "lenient", follow="true", pollMillis="1", onChange=choice)
    strict, lenient = con.cursor(), con.cursor()
    strict.execute("SELECT id FROM strict")
    lenient.execute("SELECT id FROM lenient")
    assert sorted(taken(strict, 3)) == sorted(taken(lenient, 3)) == [(1,), (2,), (3,)]
    deltalake.DeltaTable(str(path)).delete("id = 2")
    write(path, {"id": [5]})
    assert taken(lenient, len(expected)) == expected
    with pytest.raises(
        OperationalError, match=r"version 1 of the Delta table .* \(DELETE\) isn't an append"
    ) as caught:
        strict.fetchone()
    assert "'onChange' = 'skip'" in (caught.value.hint or "")
    lenient.close()


def test_a_stream_whose_log_is_gone_tells_the_gap(con: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, {"id": [0]})
    table = opened(path, (), follow="true")
    assert table.version_after(0) is None  # type: ignore[attr-defined]
    for i in range(3):
        write(path, {"id": [i]})
    deltalake.DeltaTable(str(path)).create_checkpoint()
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(OperationalError, match="no longer has version 1") as caught:
        table.version_after(0)  # type: ignore[attr-defined]
    assert caught.value.detail == "reading was at version 0, and the newest one is 3"


def test_a_job_over_tables_goes_on_after_a_restart(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write(source, {"id": [0, 1]})

    def ids() -> list[int]:
        return sorted(deltalake.DeltaTable(str(target)).to_pyarrow_table().column("id").to_pylist())

    def wait(count: int) -> list[int]:
        deadline = time.monotonic() + 60
        while len(found := ids()) < count and time.monotonic() < deadline:
            pass
        return found

    with runnel.connect(str(tmp_path / "db")) as con:
        con.execute(
            f"CREATE MAPPING s TYPE Delta OPTIONS ('path' = '{source}', 'follow' = 'true', "
            "'pollMillis' = '1')"
        )
        con.execute(
            "CREATE MAPPING t (id BIGINT) TYPE Delta "
            f"OPTIONS ('path' = '{target}', 'create' = 'true')"
        )
        con.execute(
            "CREATE JOB j OPTIONS ('processingGuarantee' = 'exactlyOnce', "
            "'snapshotIntervalMillis' = '20') "
            "AS INSERT INTO t SELECT id FROM s"
        )
        assert wait(2) == [0, 1]
    write(source, {"id": [2, 3]})
    with runnel.connect(str(tmp_path / "db")) as con:
        assert wait(4) == [0, 1, 2, 3]
        write(source, {"id": [4]})
        assert wait(5) == [0, 1, 2, 3, 4]
        con.execute("DROP JOB j")
    log = [
        json.loads(line)
        for item in sorted((target / "_delta_log").glob("*.json"))
        for line in item.read_text().splitlines()
    ]
    numbers = [action["txn"]["version"] for action in log if "txn" in action]
    assert numbers == sorted(set(numbers)), "each epoch is there once"
    assert len(numbers) >= 3
