"""TYPE Iceberg: what the library writes is read, what we write the library reads, and what can't be
read rightly is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from runnel.catalog import Table
from runnel.connector import ColumnDefinition as Definition
from runnel.connector import Connector, MappingDefinition
from runnel.connectors.lake.iceberg.commit import IcebergTarget
from runnel.connectors.lake.iceberg.connector import IcebergConnector
from runnel.errors import IntegrityError, NotSupportedError, OperationalError, ProgrammingError
from runnel.sqltypes import Kind
from tests.connectors.conformance import (
    PEOPLE,
    VALUES,
    Columns,
    OptionsConformance,
    WritingConformance,
)
from tests.connectors.lake.delta.test_delta import files_read, taken
from tests.sinks.durable_conformance import DurableConformance

pytest.importorskip("pyiceberg", reason="needs pyiceberg: pip install 'runnel[iceberg]'")
pytest.importorskip("sqlalchemy", reason="needs sqlalchemy: pip install 'runnel[iceberg]'")

TYPES = tuple(
    item for item in VALUES if item.kind not in (Kind.INTERVAL, Kind.TINYINT, Kind.SMALLINT)
)
IDS = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module")
def connector() -> Iterator[IcebergConnector]:
    made = IcebergConnector()
    yield made
    made.close()


def opened(connector: Connector, path: Path, columns: Columns = PEOPLE, **options: str) -> Table:
    definitions = tuple(Definition(name, item) for name, item in columns)
    given = {"table": "space.t", "warehouse": str(path), "create": "true", **options}
    return connector.open(MappingDefinition("t", definitions, given))


class TestIceberg(WritingConformance):
    types = TYPES

    @pytest.fixture(autouse=True)
    def _connector(self, connector: IcebergConnector) -> None:
        self.iceberg = connector

    def empty(self, path: Path, columns: Columns) -> Any:
        return opened(self.iceberg, path, columns)


class TestPartitionedIceberg(TestIceberg):
    types = ()

    def empty(self, path: Path, columns: Columns) -> Any:
        return opened(self.iceberg, path, columns, partitionBy="name")

    test_batches_are_short_and_canonical = None  # of 66,000 folders


class TestDurableIceberg(DurableConformance):
    seeds = 2

    @pytest.fixture(autouse=True)
    def _connector(self, connector: IcebergConnector) -> None:
        self.iceberg = connector

    def reopened(self, path: Path) -> Any:
        return opened(self.iceberg, path)

    def traces(self, path: Path) -> list[str]:
        table = self.reopened(path)
        known = {file.file.path for file in table.files_at(None).files}
        return [str(item) for item in path.rglob("*.parquet") if str(item) not in known]


class TestIcebergOptions(OptionsConformance):
    known_option = "pollMillis"

    def connector(self, path: Path) -> Connector:
        return IcebergConnector()

    def definition(self, path: Path) -> MappingDefinition:
        columns = tuple(Definition(name, item) for name, item in PEOPLE)
        options = {
            "table": "space.t",
            "warehouse": str(path),
            "create": "true",
            "follow": "true",
            "pollMillis": "10",
        }
        return MappingDefinition("t", columns, options)


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        yield made


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    """What another user of the tables in the folder has."""
    from pyiceberg.catalog import load_catalog

    made = load_catalog(
        "default",
        type="sql",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"file://{tmp_path}",
    )
    made.create_namespace("space")
    yield made
    made.engine.dispose()


def mapping(con: runnel.Connection, warehouse_path: Path, name: str = "t", **options: str) -> None:
    given = {"table": "space.t", "warehouse": str(warehouse_path), **options}
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value)
    con.execute(f"CREATE OR REPLACE MAPPING {name} TYPE Iceberg OPTIONS ({texts})")


def ids(values: Any) -> pa.Table:
    return pa.table({"id": list(values)}, schema=IDS)


def test_rows_go_both_ways(con: runnel.Connection, catalog: Any, tmp_path: Path) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("l", pa.list_(pa.struct([("x", pa.int32())])))]
    )
    table = catalog.create_table("space.t", schema)
    table.append(
        pa.table({"id": [1, 2], "name": ["a", None], "l": [[{"x": 1}], []]}, schema=schema)
    )
    mapping(con, tmp_path)
    assert con.execute("SELECT * FROM t ORDER BY id").fetchall() == [
        (1, "a", [{"x": 1}]),
        (2, None, []),
    ]
    assert (
        con.execute(
            "INSERT INTO t SELECT id + 2, name, CASE WHEN id = 1 THEN l END FROM t"
        ).rowcount
        == 2
    )
    table.refresh()
    # The library reads a NULL list of rows as an empty one.
    assert table.scan().to_arrow().sort_by("id").to_pylist()[2:] == [
        {"id": 3, "name": "a", "l": [{"x": 1}]},
        {"id": 4, "name": None, "l": []},
    ]
    assert con.execute("SELECT l FROM t WHERE id = 4").fetchone() == (None,)
    assert table.current_snapshot().summary.additional_properties["total-records"] == "4"


@pytest.mark.parametrize(
    ("condition", "files", "rows"),
    [
        ("id = 15", 1, 1),
        ("id >= 10 AND id < 20", 1, 10),
        ("id IN (5, 25)", 2, 2),
        ("id > 100", 0, 0),
        ("name = 'n07'", 1, 1),
        ("at >= TIMESTAMP '2024-01-03 00:00:00'", 1, 10),
        ("day = DATE '2024-01-02'", 1, 10),
        ("price > 19.5", 1, 10),
        ("x > 1e300", 3, 3),
        ("id = NULL", 0, 0),
    ],
)
def test_files_are_left_out_by_their_bounds(
    con: runnel.Connection,
    catalog: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    files: int,
    rows: int,
) -> None:
    con.execute(
        "CREATE MAPPING t (id BIGINT, name VARCHAR, at TIMESTAMP, day DATE, price DECIMAL(9, 2), "
        "x DOUBLE) TYPE Iceberg "
        f"OPTIONS ('table' = 'space.t', 'warehouse' = '{tmp_path}', 'create' = 'true')"
    )
    table = catalog.load_table("space.t")
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    for part in range(3):
        numbers = list(range(part * 10, part * 10 + 10))
        rows_in = {
            "id": numbers,
            "name": [f"n{i:02}" for i in numbers],
            "at": [datetime(2024, 1, part + 1)] * 10,
            "day": [datetime(2024, 1, part + 1).date()] * 10,
            "price": [Decimal(i) for i in numbers],
            "x": [float("nan") if i % 10 == 0 else float(i) for i in numbers],
        }
        table.append(pa.table(rows_in, schema=schema_to_pyarrow(table.schema())))
    read, found = files_read(con, f"SELECT id FROM t WHERE {condition}", monkeypatch)
    assert (read, len(found)) == (files, rows)


def test_partition_transforms(
    con: runnel.Connection, catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.transforms import (
        BucketTransform,
        DayTransform,
        IdentityTransform,
        TruncateTransform,
    )

    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("name", pa.string()),
            ("day", pa.date32()),
        ]
    )
    table = catalog.create_table("space.t", schema)
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "bucket")
        spec.add_field("at", DayTransform(), "at_day")
        spec.add_field("name", TruncateTransform(2), "start")
        spec.add_field("day", IdentityTransform(), "day")
    with pytest.raises(
        ProgrammingError, match=r"is partitioned by bucket\[4\]\(id\), .+, day, not by name"
    ):
        mapping(con, tmp_path, create="true", partitionBy="name")
    mapping(con, tmp_path)
    values = ", ".join(
        (
            f"({i}, TIMESTAMP WITH TIME ZONE '2024-01-0{i % 3 + 1} 12:00:00+00:00', {name}, "
            "DATE '1969-12-30')"
        )
        for i, name in enumerate(["'ab/c'", "'abd'", "NULL", "'ü'", "''", "'x y'"])
    )
    con.execute(f"INSERT INTO t VALUES {values}")
    expected = con.execute("SELECT * FROM t ORDER BY id").fetchall()
    assert [row[2] for row in expected] == ["ab/c", "abd", None, "ü", "", "x y"]
    table.refresh()
    theirs = table.scan().to_arrow().sort_by("id")
    assert [tuple(row.values()) for row in theirs.to_pylist()] == expected
    for i, (condition, count) in enumerate(
        [
            ("id = 3", 1),
            ("at = TIMESTAMP WITH TIME ZONE '2024-01-02 12:00:00+00:00'", 2),
            ("name = 'abd'", 1),
        ]
    ):
        read, found = files_read(con, f"SELECT id FROM t WHERE {condition}", monkeypatch)
        assert (len(found), read < 6) == (count, True), (i, read)
        assert table.scan(row_filter="id = 3").to_arrow().num_rows == 1
    assert files_read(con, "SELECT count(*) FROM t WHERE day > DATE '1970-01-01'", monkeypatch) == (
        0,
        [(0,)],
    )


def test_snapshots_moments_and_refs(con: runnel.Connection, catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("space.t", IDS)
    for i in range(3):
        table.append(ids([i]))
    first, second, _ = (item.snapshot_id for item in table.snapshots())
    table.manage_snapshots().create_tag(second, "before").commit()
    mapping(con, tmp_path, "a", snapshot=str(first))
    mapping(con, tmp_path, "b", ref="before")
    stamp = datetime.fromtimestamp(table.snapshots()[0].timestamp_ms / 1000, UTC)
    mapping(con, tmp_path, "c", timestamp=stamp.isoformat())
    assert [con.execute(f"SELECT count(*) FROM {name}").fetchone() for name in ("a", "b", "c")] == [
        (1,),
        (2,),
        (1,),
    ]
    with pytest.raises(OperationalError, match="has no snapshot 7") as caught:
        mapping(con, tmp_path, snapshot="7")
    assert str(first) in (caught.value.hint or "")
    with pytest.raises(OperationalError, match='no branch or tag "befor"') as caught:
        mapping(con, tmp_path, ref="befor")
    assert '"before"' in (caught.value.hint or "")
    with pytest.raises(OperationalError, match="has no snapshot of 2001"):
        mapping(con, tmp_path, timestamp="2001-01-01")
    with pytest.raises(ProgrammingError, match="exclude each other"):
        mapping(con, tmp_path, ref="before", snapshot=str(first))
    with pytest.raises(ProgrammingError, match="can't be written to snapshot"):
        con.execute("INSERT INTO a VALUES (1)")


def test_a_table_without_its_catalog(con: runnel.Connection, catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("space.t", IDS)
    table.append(ids([1, 2]))
    mapping(con, tmp_path, table="", warehouse="", path=f"{tmp_path}/space/t")
    table.append(ids([3]))
    assert con.execute("SELECT count(*) FROM t").fetchone() == (3,)
    with pytest.raises(ProgrammingError, match="without its catalog"):
        con.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(OperationalError, match="is no Iceberg table"):
        mapping(con, tmp_path, table="", warehouse="", path=str(tmp_path / "space"))
    with pytest.raises(ProgrammingError, match="and not both"):
        mapping(con, tmp_path, path=str(tmp_path))
    with pytest.raises(OperationalError, match=r'"space.other" not found'):
        mapping(con, tmp_path, table="space.other")
    with pytest.raises(OperationalError, match="not found"):
        mapping(con, tmp_path / "nowhere")
    for name in ("a%20b", "a?b", "a#b"):
        (tmp_path / name).mkdir()
        with pytest.raises(
            NotSupportedError, match="has a special meaning in the URL of its database"
        ):
            mapping(con, tmp_path / name)


def test_columns_go_by_their_numbers(con: runnel.Connection, catalog: Any, tmp_path: Path) -> None:
    from pyiceberg.types import LongType, StringType

    schema = pa.schema([("a", pa.int32()), ("b", pa.string()), ("gone", pa.string())])
    table = catalog.create_table("space.t", schema)
    table.append(pa.table({"a": [1], "b": ["x"], "gone": ["old"]}, schema=schema))
    mapping(con, tmp_path, "before")
    with table.update_schema() as update:
        update.rename_column("b", "c")
        update.rename_column("a", "b")
        update.update_column("a", LongType())
        update.delete_column("gone")
    with table.update_schema() as update:
        update.add_column("gone", StringType())
    mapping(con, tmp_path)
    assert con.execute("SELECT b, c, gone FROM t").fetchall() == [(1, "x", None)]
    con.execute("INSERT INTO t (b, c, gone) VALUES (2, 'y', 'new')")
    assert con.execute("SELECT b, c, gone FROM t WHERE b > 0 ORDER BY b").fetchall() == [
        (1, "x", None),
        (2, "y", "new"),
    ]
    with pytest.raises(OperationalError, match="were changed since CREATE MAPPING"):
        con.execute("SELECT b FROM before").fetchall()


def test_a_column_that_was_dropped_and_added_anew_is_told(
    con: runnel.Connection, catalog: Any, tmp_path: Path
) -> None:
    from pyiceberg.types import LongType

    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    table = catalog.create_table("space.t", schema)
    mapping(con, tmp_path)
    with table.update_schema() as update:
        update.delete_column("n")
    with table.update_schema() as update:
        update.add_column("n", LongType())
    with pytest.raises(OperationalError) as caught:
        con.execute("SELECT n FROM t").fetchall()
    assert 'column "n" was dropped, and added again' in (caught.value.detail or "")


def test_fields_within_a_column_that_changed_are_refused(
    con: runnel.Connection, catalog: Any, tmp_path: Path
) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))]
    )
    table = catalog.create_table("space.t", schema)
    table.append(pa.table({"id": [1], "s": [{"x": 1, "y": 2}]}, schema=schema))
    with table.update_schema() as update:
        update.move_first(("s", "y"))
    mapping(con, tmp_path)
    assert con.execute("SELECT id FROM t").fetchall() == [(1,)]
    with pytest.raises(NotSupportedError, match='column "s" has other fields in file'):
        con.execute("SELECT s FROM t").fetchall()


def test_files_of_others_without_numbers(
    con: runnel.Connection, catalog: Any, tmp_path: Path
) -> None:
    table = catalog.create_table("space.t", IDS)
    pq.write_table(ids([1, 2]), tmp_path / "added.parquet")
    table.add_files([f"file://{tmp_path}/added.parquet"])
    mapping(con, tmp_path)
    assert con.execute("SELECT sum(id) FROM t").fetchone() == (3,)
    with table.transaction() as change:
        change.remove_properties("schema.name-mapping.default")
    with pytest.raises(NotSupportedError, match="doesn't identify its columns"):
        mapping(con, tmp_path)
        con.execute("SELECT sum(id) FROM t").fetchall()


def with_delete_file(table: Any, content: str, deletes: pa.Table) -> None:
    """A snapshot with a file of deletes beside the data, as writers other than the library make
    it."""
    from pyiceberg import manifest as m
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update.snapshot import _FastAppendFiles
    from pyiceberg.typedef import Record

    path = f"{table.location()}/data/deletes.parquet"
    pq.write_table(deletes, path.removeprefix("file://"))

    class Writer(m.ManifestWriterV2):
        def content(self) -> Any:
            return m.ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    class Deleting(_FastAppendFiles):
        def _existing_manifests(self) -> list[Any]:
            file = m.DataFile.from_args(
                content=m.DataFileContent[content],
                file_path=path,
                file_format=m.FileFormat.PARQUET,
                partition=Record(),
                record_count=deletes.num_rows,
                file_size_in_bytes=1,
                equality_ids=[1] if content == "EQUALITY_DELETES" else None,
            )
            output = table.io.new_output(f"{table.location()}/metadata/deletes.avro")
            with Writer(table.spec(), table.schema(), output, self._snapshot_id, "null") as writer:
                entry = m.ManifestEntry.from_args(
                    status=m.ManifestEntryStatus.ADDED,
                    snapshot_id=self._snapshot_id,
                    data_file=file,
                )
                writer.add_entry(entry)
            return [*super()._existing_manifests(), writer.to_manifest_file()]

    with table.transaction() as change, Deleting(Operation.DELETE, change, table.io) as producer:
        assert producer is not None


def test_rows_that_a_delete_file_takes_out_are_gone(
    con: runnel.Connection, catalog: Any, tmp_path: Path
) -> None:
    table = catalog.create_table("space.t", IDS)
    table.append(ids(range(10)))
    [task] = table.scan().plan_files()
    places = pa.table({"file_path": [task.file.file_path] * 2, "pos": pa.array([1, 3], pa.int64())})
    with_delete_file(table, "POSITION_DELETES", places)
    mapping(con, tmp_path)
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
    assert con.execute("SELECT id FROM t WHERE id > 8").fetchall() == [(9,)]
    assert con.execute("SELECT count(*) FROM (SELECT id FROM t LIMIT 9)").fetchone() == (8,)


def test_deletes_by_value_are_refused(con: runnel.Connection, catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("space.t", IDS)
    table.append(ids(range(10)))
    with_delete_file(table, "EQUALITY_DELETES", ids([3]))
    mapping(con, tmp_path)
    with pytest.raises(NotSupportedError) as caught:
        con.execute("SELECT id FROM t").fetchall()
    assert "equality deletes" in f"{caught.value.message} {caught.value.detail}"


def test_a_password_in_an_address_is_not_told(con: runnel.Connection) -> None:
    with pytest.raises(OperationalError, match="can't be opened") as caught:
        con.execute(
            "CREATE MAPPING t TYPE Iceberg OPTIONS ('table' = 's.t', 'uri' = 'nosuch://me:mine@host/x')"
        )
    assert caught.value.detail is not None
    assert "nosuch://…@host/x" in caught.value.detail
    assert "'warehouse'" in (caught.value.hint or "")


def test_null_where_a_column_is_required(
    con: runnel.Connection, catalog: Any, tmp_path: Path
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    catalog.create_table("space.t", schema)
    mapping(con, tmp_path)
    with pytest.raises(IntegrityError, match='column "id" can\'t be NULL'):
        con.execute("INSERT INTO t VALUES (NULL, 'a')")
    con.execute("INSERT INTO t VALUES (1, 'a')")
    assert con.execute("SELECT * FROM t").fetchall() == [(1, "a")]


def test_small_integers_are_kept_in_wider_columns(con: runnel.Connection, tmp_path: Path) -> None:
    con.execute(
        "CREATE MAPPING t (id BIGINT, a TINYINT, b SMALLINT) TYPE Iceberg "
        f"OPTIONS ('table' = 't', 'warehouse' = '{tmp_path}', 'create' = 'true')"
    )
    con.execute("INSERT INTO t VALUES (1, -128, 32767), (2, NULL, NULL)")
    assert con.execute("SELECT * FROM t ORDER BY id").fetchall() == [
        (1, -128, 32767),
        (2, None, None),
    ]


def test_a_commit_meets_others(
    con: runnel.Connection, catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("space.t", IDS)
    mapping(con, tmp_path)
    original = IcebergTarget._data_file
    left = [1]

    def meanwhile(self: Any, path: str, said: Any) -> Any:
        if left[0]:
            left[0] -= 1
            table.refresh()
            table.append(ids([100]))
        return original(self, path, said)

    monkeypatch.setattr(IcebergTarget, "_data_file", meanwhile)
    con.execute("INSERT INTO t VALUES (1)")
    assert sorted(con.execute("SELECT id FROM t").fetchall()) == [(1,), (100,)]


def test_a_stream_gives_each_snapshot_in_order(
    con: runnel.Connection, catalog: Any, tmp_path: Path
) -> None:
    table = catalog.create_table("space.t", IDS)
    mapping(con, tmp_path, follow="true", pollMillis="1")
    cursor = con.cursor()
    cursor.execute("SELECT id FROM t WHERE id <> 3")
    for i in range(2, 6):
        table.append(ids([i]))
    assert taken(cursor, 3) == [(2,), (4,), (5,)]
    table.append(ids([6]))
    assert taken(cursor, 1) == [(6,)]
    cursor.close()
    mapping(con, tmp_path, "late", follow="true", snapshot=str(table.snapshots()[1].snapshot_id))
    cursor = con.cursor()
    cursor.execute("SELECT id FROM late")
    found = taken(cursor, 5)
    assert (sorted(found[:2]), found[2:]) == ([(2,), (3,)], [(4,), (5,), (6,)])
    cursor.close()


@pytest.mark.parametrize(
    ("choice", "expected"), [("skip", [(5,)]), ("additions", [(1,), (3,), (5,)])]
)
def test_a_stream_over_a_delete(
    con: runnel.Connection, catalog: Any, tmp_path: Path, choice: str, expected: list[Any]
) -> None:
    table = catalog.create_table("space.t", IDS)
    table.append(ids([1, 2, 3]))
    mapping(con, tmp_path, "strict", follow="true", pollMillis="1")
    mapping(con, tmp_path, "lenient", follow="true", pollMillis="1", onChange=choice)
    strict, lenient = con.cursor(), con.cursor()
    strict.execute("SELECT id FROM strict")
    lenient.execute("SELECT id FROM lenient")
    assert sorted(taken(strict, 3)) == sorted(taken(lenient, 3)) == [(1,), (2,), (3,)]
    table.delete("id = 2")
    table.append(ids([5]))
    assert taken(lenient, len(expected)) == expected
    with pytest.raises(OperationalError, match="isn't an append") as caught:
        strict.fetchone()
    assert "'onChange' = 'skip'" in (caught.value.hint or "")
    lenient.close()


def test_a_stream_whose_snapshot_was_expired_tells_the_gap(
    connector: Any, catalog: Any, tmp_path: Path
) -> None:
    table = catalog.create_table("space.t", IDS)
    followed: Any = opened(connector, tmp_path, (), follow="true")
    empty = followed.first_version()
    for i in range(3):
        table.append(ids([i]))
    first = table.snapshots()[0].snapshot_id
    assert followed.version_after(empty) == first
    assert followed.version_after(first) == table.snapshots()[1].snapshot_id
    table.maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(OperationalError, match=r"no longer has the snapshots before"):
        followed.version_after(empty)
    with pytest.raises(OperationalError, match=f"no longer has snapshot {first}"):
        followed.version_after(first)
    with pytest.raises(OperationalError, match=f"has no snapshot {first}"):
        followed.files_at(first)


def test_a_job_over_tables_goes_on_after_a_restart(catalog: Any, tmp_path: Path) -> None:
    source = catalog.create_table("space.s", IDS)
    target = catalog.create_table("space.t", IDS)
    source.append(ids([0, 1]))

    def found() -> list[int]:
        target.refresh()
        return sorted(target.scan().to_arrow().column("id").to_pylist())

    def wait(count: int) -> list[int]:
        deadline = time.monotonic() + 60
        while len(now := found()) < count and time.monotonic() < deadline:
            pass
        return now

    with runnel.connect(str(tmp_path / "db")) as con:
        mapping(con, tmp_path, "s", table="space.s", follow="true", pollMillis="1")
        mapping(con, tmp_path, "t")
        con.execute(
            "CREATE JOB j OPTIONS ('processingGuarantee' = 'exactlyOnce', "
            "'snapshotIntervalMillis' = '20') "
            "AS INSERT INTO t SELECT id FROM s"
        )
        assert wait(2) == [0, 1]
    source.append(ids([2, 3]))
    with runnel.connect(str(tmp_path / "db")) as con:
        assert wait(4) == [0, 1, 2, 3]
        source.append(ids([4]))
        assert wait(5) == [0, 1, 2, 3, 4]
        con.execute("DROP JOB j")
    summaries = [item.summary.additional_properties for item in target.snapshots()]
    epochs = [int(item["runnel.epoch"]) for item in summaries]
    assert epochs == sorted(set(epochs)), "each epoch is there once"
    [committed] = [
        value for name, value in target.properties.items() if name.startswith("runnel.committed.")
    ]
    assert int(committed) == epochs[-1]


def test_statements_of_one_connection_wait_for_one_another(
    con: runnel.Connection, catalog: Any, tmp_path: Path
) -> None:
    table = catalog.create_table("space.t", IDS)
    mapping(con, tmp_path)
    failed: list[BaseException] = []

    def insert(first: int) -> None:
        try:
            for i in range(3):
                con.cursor().execute("INSERT INTO t VALUES (?)", (first + i,))
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=insert, args=(first,)) for first in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    table.refresh()
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [
        0,
        1,
        2,
        10,
        11,
        12,
        20,
        21,
        22,
    ]


def test_no_class_is_imported_that_a_tables_metadata_names(
    connector: IcebergConnector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/named_by_data.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
        "from pyiceberg.io.pyarrow import PyArrowFileIO as Named"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    opened(connector, tmp_path / "w")
    (metadata,) = (tmp_path / "w").rglob("*.metadata.json")
    content = json.loads(metadata.read_text())
    for name in ("py-io-impl", "write.py-location-provider.impl"):
        metadata.write_text(json.dumps({**content, "properties": {name: "named_by_data.Named"}}))
        for options in (
            {"path": str(metadata)},
            {"table": "space.t", "warehouse": str(tmp_path / "w")},
        ):
            with pytest.raises(NotSupportedError, match=name):
                connector.open(MappingDefinition("t", (), options))
    assert not (tmp_path / "ran").exists()
