"""Avro files that others have written: their schemas, logical types, blocks, damage."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest

import runnel
from runnel import Connection


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        yield connection


def written(
    path: Path, fields: list[dict[str, Any]], records: list[dict[str, Any]], **options: Any
) -> Path:
    schema = {"type": "record", "name": "r", "fields": fields}
    with path.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(schema), records, **options)
    return path


def of_type(path: Path, schema: Any, *values: Any) -> Path:
    return written(path, [{"name": "v", "type": schema}], [{"v": value} for value in values])


def select(con: Connection, path: Path, what: str = "*") -> list[tuple[Any, ...]]:
    return con.execute(f"SELECT {what} FROM TABLE(AVRO_FILE('{path}'))").fetchall()


INSTANT = datetime(2024, 2, 29, 1, 2, 3, 456000, UTC)
TYPES: dict[str, tuple[Any, str, Any, Any]] = {
    "int": ("int", "INTEGER", -(2**31), -(2**31)),
    "long": ("long", "BIGINT", 2**63 - 1, 2**63 - 1),
    "float": ("float", "REAL", 1.5, 1.5),
    "double": ("double", "DOUBLE", 0.1, 0.1),
    "boolean": ("boolean", "BOOLEAN", True, True),
    "string": ("string", "VARCHAR", "Grüße", "Grüße"),
    "bytes": ("bytes", "VARBINARY", b"\x00\xff", b"\x00\xff"),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, "VARBINARY", b"ab", b"ab"),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "VARCHAR", "B", "B"),
    "date": ({"type": "int", "logicalType": "date"}, "DATE", date(1, 1, 1), date(1, 1, 1)),
    "time-millis": (
        {"type": "int", "logicalType": "time-millis"},
        "TIME",
        time(1, 2, 3, 4000),
        time(1, 2, 3, 4000),
    ),
    "time-micros": (
        {"type": "long", "logicalType": "time-micros"},
        "TIME",
        time(23, 59, 59, 999999),
        time(23, 59, 59, 999999),
    ),
    "timestamp-millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        "TIMESTAMP WITH TIME ZONE",
        INSTANT,
        INSTANT,
    ),
    "local-timestamp": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        "TIMESTAMP",
        datetime(1969, 1, 1),
        datetime(1969, 1, 1),
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "DECIMAL(10, 2)",
        Decimal("-12.34"),
        Decimal("-12.34"),
    ),
    "uuid": (
        {"type": "string", "logicalType": "uuid"},
        "UUID",
        UUID(int=5),
        UUID(int=5),
    ),
    "array": ({"type": "array", "items": ["null", "int"]}, "INTEGER[]", [1, None], [1, None]),
    "map": ({"type": "map", "values": "long"}, "MAP(VARCHAR, BIGINT)", {"k": 1}, {"k": 1}),
    "record": (
        {
            "type": "record",
            "name": "p",
            "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"]}],
        },
        "ROW(x INTEGER, y VARCHAR)",
        {"x": 1, "y": None},
        {"x": 1, "y": None},
    ),
    "nullable": (["null", "long"], "BIGINT", None, None),
    "numbers": (["null", "int", "double"], "DOUBLE", 1.5, 1.5),
    "null": ("null", "VARCHAR", None, None),
}


@pytest.mark.parametrize("name", TYPES)
def test_types(con: Connection, tmp_path: Path, name: str) -> None:
    schema, sql_type, value, expected = TYPES[name]
    path = of_type(tmp_path / "f.avro", schema, value, value)
    con.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{path}')")
    assert con.execute("DESCRIBE m").fetchall() == [("v", sql_type, "YES", None, None, None)]
    assert con.execute("SELECT * FROM m").fetchall() == [(expected,), (expected,)]


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (["string", "int"], 1, "a union of VARCHAR and INTEGER has no SQL type"),
        (
            {
                "type": "record",
                "name": "node",
                "fields": [{"name": "next", "type": ["null", "node"]}],
            },
            {"next": None},
            'Avro type "node" contains itself',
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2},
            Decimal(1),
            "60 digits",
        ),
    ],
)
def test_types_without_counterpart_are_refused_by_name(
    con: Connection, tmp_path: Path, schema: Any, value: Any, said: str
) -> None:
    path = of_type(tmp_path / "f.avro", schema, value)
    with pytest.raises(runnel.NotSupportedError, match=said) as caught:
        select(con, path)
    assert 'column "v" of file' in caught.value.message


def test_only_the_wanted_fields_are_decoded(con: Connection, tmp_path: Path) -> None:
    fields = [{"name": name, "type": "long"} for name in "abc"]
    path = written(
        tmp_path / "f.avro", fields, [{"a": i, "b": -i, "c": i * i} for i in range(1000)]
    )
    assert select(con, path, "sum(c)") == [(332833500,)]
    assert select(con, path, "max(c), min(b)") == [(998001, -999)]
    assert select(con, path, "count(*)") == [(1000,)]


def test_a_named_type_used_twice(con: Connection, tmp_path: Path) -> None:
    color = {"type": "enum", "name": "color", "symbols": ["RED", "BLUE"]}
    fields = [
        {"name": "first", "type": color},
        {"name": "second", "type": ["null", "color"]},
        {"name": "n", "type": "int"},
    ]
    path = written(
        tmp_path / "f.avro",
        fields,
        [{"first": "RED", "second": None, "n": 1}, {"first": "BLUE", "second": "RED", "n": 2}],
    )
    assert select(con, path) == [("RED", None, 1), ("BLUE", "RED", 2)]
    assert select(con, path, "second") == [(None,), ("RED",)]
    assert select(con, path, "n") == [(1,), (2,)]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs_and_many_blocks(con: Connection, tmp_path: Path, codec: str) -> None:
    fields = [{"name": "a", "type": "int"}]
    path = written(
        tmp_path / "f.avro", fields, [{"a": i} for i in range(5000)], codec=codec, sync_interval=500
    )
    assert select(con, path, "count(*), sum(a)") == [(5000, 12497500)]


def test_files_of_different_schemas_are_united(con: Connection, tmp_path: Path) -> None:
    written(tmp_path / "1.avro", [{"name": "a", "type": "int"}], [{"a": 1}])
    written(
        tmp_path / "2.avro",
        [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
        [{"a": 2**40, "b": "x"}],
    )
    con.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{tmp_path}')")
    assert con.execute("SELECT a, b FROM m ORDER BY a").fetchall() == [(1, None), (2**40, "x")]


def test_declared_columns_are_cast(con: Connection, tmp_path: Path) -> None:
    path = of_type(tmp_path / "f.avro", "string", "1", "x")
    con.execute(f"CREATE MAPPING m (v INT) TYPE File OPTIONS ('path' = '{path}')")
    with pytest.raises(
        runnel.DataError, match="value 'x' doesn't fit column \"v\" of type INTEGER"
    ) as caught:
        con.execute("SELECT * FROM m").fetchall()
    assert "row 2" in (caught.value.detail or "")
    with pytest.raises(runnel.ProgrammingError, match='column "w" is not in file'):
        con.execute(f"CREATE MAPPING w (w INT) TYPE File OPTIONS ('path' = '{path}')")


def test_what_is_written_is_read_by_others(con: Connection, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    con.execute(
        "CREATE MAPPING m (a INT, d DECIMAL(10, 2), t TIMESTAMP WITH TIME ZONE, l VARCHAR[], "
        "r ROW(x INT, y DATE)) "
        f"TYPE File OPTIONS ('path' = '{folder}', 'format' = 'avro', 'compression' = 'bz2')"
    )
    con.execute(
        "INSERT INTO m (a, d, t, l) VALUES (NULL, NULL, NULL, NULL), "
        "(1, 1.5, CAST('2024-02-29T01:02:03Z' AS TIMESTAMP WITH TIME ZONE), ARRAY['x', NULL])"
    )
    (file,) = folder.iterdir()
    assert file.suffix == ".avro"
    with file.open("rb") as stream:
        reader = fastavro.reader(stream)
        assert reader.metadata["avro.codec"] == "bzip2"
        assert list(reader) == [
            dict.fromkeys("adtlr"),
            {
                "a": 1,
                "d": Decimal("1.50"),
                "t": datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC),
                "l": ["x", None],
                "r": None,
            },
        ]


def test_what_can_not_be_written(con: Connection, tmp_path: Path) -> None:
    options = f"TYPE File OPTIONS ('path' = '{tmp_path / 'out'}', 'format' = 'avro')"
    con.execute(f"CREATE MAPPING i (i INTERVAL DAY TO SECOND) {options}")
    with pytest.raises(runnel.NotSupportedError, match="can't be written in format avro"):
        con.execute("INSERT INTO i VALUES (INTERVAL '1' DAY)")
    con.execute(f'CREATE MAPPING n ("a b" INT) {options}')
    with pytest.raises(
        runnel.ProgrammingError, match='column "a b" can\'t be written in format avro'
    ):
        con.execute("INSERT INTO n VALUES (1)")
    with pytest.raises(runnel.ProgrammingError, match="no compression lz4"):
        con.execute(
            f"CREATE MAPPING z (a INT) TYPE File OPTIONS ('path' = '{tmp_path}', "
            "'format' = 'avro', 'compression' = 'lz4')"
        )


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut", "header", "block"])
def test_damaged_files(con: Connection, tmp_path: Path, damage: str) -> None:
    path = written(
        tmp_path / "f.avro",
        [{"name": "a", "type": "string"}],
        [{"a": "text" * 20}] * 500,
        sync_interval=1000,
    )
    data = path.read_bytes()
    changed = {
        "garbage": b"this is no Avro file\0" * 10,
        "empty": b"",
        "cut": data[: len(data) // 2],
        "header": data[:10],
        "block": data[:300] + bytes([255] * 60) + data[360:],
    }[damage]
    path.write_bytes(changed)
    with pytest.raises(runnel.OperationalError, match="can't be read") as caught:
        select(con, path, "count(*), max(a)")
    assert str(path) in caught.value.message


def test_values_that_are_no_records(con: Connection, tmp_path: Path) -> None:
    path = tmp_path / "f.avro"
    with path.open("wb") as stream:
        fastavro.writer(stream, "int", [1, 2])
    with pytest.raises(
        runnel.NotSupportedError, match="doesn't hold records but values of type int"
    ):
        select(con, path)
