"""Files that are damaged, cut off, or hold what doesn't fit; sinks that fail half-way."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runnel import Cursor, ErrorCode
from tests.bad_input.pinned import refused

CSV = b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i * 7919) for i in range(2000))
BOTH = "(a INT, b VARCHAR)"


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]


CASES: dict[str, tuple[str, str, bytes]] = {
    "a text for an integer": ("f.csv", BOTH, b"a,b\n1,x\nfoo,y\n"),
    "an integer too large": ("f.csv", BOTH, b"a,b\n1,x\n3000000000,y\n"),
    "a day that isn't": ("f.csv", "(a INT, b DATE)", b"a,b\n1,2024-02-30\n"),
    "no BOOLEAN": ("f.csv", "(a INT, b BOOLEAN)", b"a,b\n1,maybe\n"),
    "a DECIMAL too large": ("f.csv", "(a INT, b DECIMAL(5, 2))", b"a,b\n1,12345678.9\n"),
    "a column that isn't there": ("f.csv", "(a INT, nosuch INT)", b"a,b\n1,2\n"),
    "too few fields": ("f.csv", BOTH, b"a,b\n1,x\n2\n"),
    "too many fields": ("f.csv", BOTH, b"a,b\n1,x\n2,y,z\n"),
    "a quote never closed": ("f.csv", BOTH, b'a,b\n1,"x\n2,y\n'),
    "another encoding": ("f.csv", BOTH, b"a,b\n1,\xe9\n"),
    "UTF-16": ("f.csv", "", "a,b\n1,x\n".encode("utf-16-le")),
    "nothing to infer from": ("f.csv", "", b""),
    "gzip cut off": ("f.csv.gz", BOTH, gzip.compress(CSV)[:3000]),
    "gzip cut off, inferred": ("f.csv.gz", "", gzip.compress(CSV)[:3000]),
    "no gzip": ("f.csv.gz", BOTH, CSV),
    "gzip with a wrong checksum": ("f.csv.gz", BOTH, _flipped(gzip.compress(CSV), -6)),
    "JSON cut off": ("f.json", "(a INT)", b'{"a":1}\n{"a":2'),
    "JSON cut off, inferred": ("f.json", "", b'{"a":1}\n{"a":2'),
    "a text for an integer in JSON": ("f.json", "(a INT)", b'{"a":1}\n\n{"a":"x"}'),
    "an integer too large in JSON": ("f.json", "(a INT)", b'{"a":1}\n{"a":3000000000}'),
    "a lone surrogate in JSON": ("f.json", "(a VARCHAR)", b'{"a":"\\ud800"}\n'),
    "wrong JSON": ("f.json", "(a INT)", b'{"a":1}\n{"a":}\n{"a":2}\n'),
    "JSON nested 5000 deep": (
        "f.json",
        "(a VARCHAR)",
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    ),
    "a record that is a number": ("f.json", "(a INT)", b"5\n"),
    "a JSON array cut off": ("f.json", "(a INT)", b'[{"a":1},\n{"a":2'),
    "a text for an integer in a JSON array": ("f.json", "(a INT)", b'[{"a":1},\n{"a":"x"}]'),
    "more after a JSON array": ("f.json", "(a INT)", b'[{"a":1}] x'),
    "JSON in gzip cut off": ("f.json.gz", "(a INT)", gzip.compress(b'{"a":1}\n' * 1000)[:-20]),
}


def reading(cursor: Cursor, path: Path, columns: str) -> Callable[[], object]:
    """Declares a mapping of the file and reads all of it."""

    def read() -> object:
        cursor.execute(f"CREATE MAPPING f {columns} TYPE File OPTIONS ('path'='{path}')")
        return cursor.execute("SELECT * FROM f").fetchall()

    return read


@pytest.mark.parametrize("name", CASES)
def test_text_files(cursor: Cursor, tmp_path: Path, name: str) -> None:
    file_name, columns, content = CASES[name]
    path = tmp_path / file_name
    path.write_bytes(content)
    refused("files", name, reading(cursor, path, columns), tmp_path)
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def _parquet(path: Path) -> bytes:
    pq.write_table(pa.table({"a": list(range(10_000)), "b": ["x"] * 10_000}), path)
    return path.read_bytes()


PARQUET: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "Parquet cut off": ("", lambda data: data[: len(data) // 2]),
    "Parquet of four bytes": ("", lambda data: data[:4]),
    "Parquet of no bytes": ("", lambda data: b""),
    "Parquet with damaged pages": ("", lambda data: data[:200] + b"\xff" * 1000 + data[1200:]),
    "a text for an integer in Parquet": ("(b INT)", lambda data: data),
    "an integer too large in Parquet": ("(a TINYINT)", lambda data: data),
    "a column that isn't in Parquet": ("(nosuch INT)", lambda data: data),
}


@pytest.mark.parametrize("name", PARQUET)
def test_parquet_files(cursor: Cursor, tmp_path: Path, name: str) -> None:
    columns, change = PARQUET[name]
    path = tmp_path / "f.parquet"
    path.write_bytes(change(_parquet(path)))
    refused("files", name, reading(cursor, path, columns), tmp_path)
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_files_that_are_not_there(cursor: Cursor, tmp_path: Path) -> None:
    (tmp_path / "flights.csv").write_text("a\n1\n")
    missing = {
        "a name nearly right": "flihgts.csv",
        "no such folder": "nosuch/f.csv",
        "no file matches": "*.json",
    }
    for name, path in missing.items():
        error = refused("files", name, reading(cursor, tmp_path / path, ""), tmp_path)
        assert error.code is ErrorCode.OBJECT_NOT_FOUND


def test_a_file_that_goes_away(cursor: Cursor, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a\n1\n")
    reading(cursor, path, "")()
    path.unlink()
    refused(
        "files",
        "a file that went away",
        lambda: cursor.execute("SELECT a FROM f").fetchall(),
        tmp_path,
    )
    path.write_text("a\n2\n")
    assert cursor.execute("SELECT a FROM f").fetchall() == [(2,)], "it may come back"


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "lines"])
def test_a_file_sink_that_fails_half_way_shows_nothing(
    cursor: Cursor, tmp_path: Path, kind: str
) -> None:
    columns, value = (
        ("(line VARCHAR)", "CAST({} AS VARCHAR)") if kind == "lines" else ("(a BIGINT)", "{}")
    )
    folder = tmp_path / "out"
    options = f"('path'='{folder}', 'format'='{kind}')"
    cursor.execute(f"CREATE MAPPING o {columns} TYPE File OPTIONS {options}")
    failing = value.format("100 / (v - 90000)")
    sql = f"INSERT INTO o SELECT {failing} FROM TABLE(GENERATE_SERIES(1, 100000))"
    refused("files", f"a {kind} sink half-way", lambda: cursor.execute(sql), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    cursor.execute(f"INSERT INTO o SELECT {value.format('v')} FROM TABLE(GENERATE_SERIES(1, 10))")
    assert cursor.execute("SELECT COUNT(*) FROM o").fetchone() == (10,)


def test_a_file_sink_overwrites_nothing(cursor: Cursor, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a\n1\n")
    reading(cursor, path, "(a INT)")()
    refused(
        "files",
        "a file to write that exists",
        lambda: cursor.execute("INSERT INTO f VALUES (2)"),
        tmp_path,
    )
    assert path.read_text() == "a\n1\n"


def test_a_file_sink_below_a_file(cursor: Cursor, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n1\n")
    cursor.execute(
        f"CREATE MAPPING o (a INT) TYPE File OPTIONS ('path'='{tmp_path}/f/g', 'format'='csv')"
    )
    refused(
        "files",
        "a folder that is a file",
        lambda: cursor.execute("INSERT INTO o VALUES (2)"),
        tmp_path,
    )
    assert (tmp_path / "f").read_text() == "a\n1\n"


@pytest.mark.parametrize("statement", ["INSERT", "SINK"])
def test_a_map_sink_that_fails_half_way_shows_nothing(cursor: Cursor, statement: str) -> None:
    cursor.execute(
        "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )
    cursor.execute("INSERT INTO m VALUES (-1, 1), (-2, 2)")
    for failing in ("100 / (v - 90000)", "v * 9223372036854775807"):
        sql = f"{statement} INTO m SELECT v, {failing} FROM TABLE(GENERATE_SERIES(1, 100000))"
        refused("files", f"a map {statement}: {failing}", lambda sql=sql: cursor.execute(sql))  # type: ignore[misc]
    sql = "INSERT INTO m SELECT v - 50000, v FROM TABLE(GENERATE_SERIES(1, 100000))"
    refused("files", "a map INSERT over keys that exist", lambda: cursor.execute(sql))
    assert cursor.execute("SELECT * FROM m ORDER BY __key").fetchall() == [(-2, 2), (-1, 1)]


@pytest.mark.parametrize(
    "change",
    ["UPDATE m SET this = 100 / (__key - 900)", "DELETE FROM m WHERE 100 / (__key - 900) < 1000"],
)
def test_a_change_that_fails_half_way_changes_nothing(cursor: Cursor, change: str) -> None:
    cursor.execute(
        "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )
    cursor.execute("INSERT INTO m SELECT v, v FROM TABLE(GENERATE_SERIES(1, 1000))")
    refused("files", change, lambda: cursor.execute(change))
    assert cursor.execute("SELECT COUNT(*), SUM(this) FROM m").fetchone() == (1000, 500500)
