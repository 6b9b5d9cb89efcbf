"""Durable directories: owned by another, damaged, unusable; and a disk that is full, which a limit
on the size of files stands for, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import runnel
from tests.bad_input.pinned import check, refused

MAPPING = (
    "CREATE MAPPING m (__key BIGINT, v VARCHAR) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
)

PROLOGUE = f"""
import os, pathlib, resource, signal, sys
import runnel
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
MAPPING = "{MAPPING}"

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def refuse(action):
    try:
        action()
    except runnel.Error as error:
        print(type(error).__name__, error.code.name)
        print(error)
    else:
        print("accepted")

def keys():
    print(cursor.execute("SELECT __key FROM m ORDER BY __key").fetchall())
"""


def run(code: str, folder: Path) -> str:
    """What a script prints, in a process of its own; `folder` is shown as FOLDER."""
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + code, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(folder), "FOLDER").strip()


def filled(path: Path) -> None:
    with runnel.connect(path) as connection:
        cursor = connection.cursor()
        cursor.execute(MAPPING)
        cursor.execute("INSERT INTO m VALUES (1, 'a'), (2, 'b')")


def rows(path: Path) -> list[tuple[object, ...]]:
    with runnel.connect(path) as connection:
        return connection.cursor().execute("SELECT __key, v FROM m ORDER BY __key").fetchall()


def test_a_full_disk_loses_nothing_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "db"
    told = run(
        """
cursor = runnel.connect(sys.argv[1] + "/db").cursor()
cursor.execute(MAPPING)
cursor.execute("INSERT INTO m VALUES (1, 'a'), (2, 'b')")
room(4096)
text = "y" * 8000
refuse(lambda: cursor.execute("SINK INTO m VALUES (5, ?)", (text,)))
refuse(lambda: cursor.executemany("SINK INTO m VALUES (?, ?)", [(i, text) for i in range(9)]))
refuse(
    lambda: cursor.execute(
        "INSERT INTO m SELECT v + 10, ? FROM TABLE(GENERATE_SERIES(1, 1000))", (text[:100],)
    )
)
refuse(lambda: cursor.execute("UPDATE m SET v = ?", (text,)))
refuse(lambda: cursor.execute(f"CREATE VIEW big AS SELECT '{text}'"))
keys()
room(resource.RLIM_INFINITY)
cursor.execute("INSERT INTO m VALUES (7, 'c')")
keys()
print(cursor.execute("SHOW VIEWS").fetchall())
""",
        tmp_path,
    )
    check("durable", "a full disk", told)
    assert rows(path) == [(1, "a"), (2, "b"), (7, "c")]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_full_disk_below_a_file_sink(tmp_path: Path, kind: str) -> None:
    told = run(
        f"""
cursor = runnel.connect().cursor()
cursor.execute(
    "CREATE MAPPING o (a BIGINT, b VARCHAR) TYPE File "
    f"OPTIONS ('path'='{{sys.argv[1]}}/out', 'format'='{kind}')"
)
room(4096)
refuse(
    lambda: cursor.execute(
        "INSERT INTO o SELECT v, CAST(v * 7919 AS VARCHAR) FROM TABLE(GENERATE_SERIES(1, 50000))"
    )
)
print([p for p in pathlib.Path(sys.argv[1]).rglob("*") if p.is_file()])
room(resource.RLIM_INFINITY)
written = cursor.execute("INSERT INTO o VALUES (1, 'x')").rowcount
print(written, cursor.execute("SELECT * FROM o").fetchall())
""",
        tmp_path,
    )
    assert told.endswith("\n[]\n1 [(1, 'x')]")
    assert told.startswith('IOException INPUT_OUTPUT\nfile "FOLDER/out/')
    assert (
        'can\'t be written\nDETAIL: File too large; in vertex "write o"\nHINT: free some space'
        in told
    )


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with runnel.connect(path) as connection:
        with pytest.raises(runnel.OperationalError, match="is in use by another connection"):
            runnel.connect(path)
        told = run('refuse(lambda: runnel.connect(sys.argv[1] + "/db"))', tmp_path)
        assert told.split("\n") == [
            "ConnectionException CONNECTION_PROBLEM",
            'directory "FOLDER/db" is in use by another connection',
            told.split("\n")[2],
            "HINT: close that connection, or use another directory",
        ]
        assert told.split("\n")[2].startswith("DETAIL: its owner is the process ")
        assert connection.cursor().execute("SELECT 1").fetchone() == (1,)
    runnel.connect(path).close()


@pytest.mark.parametrize("path", ["/proc/nosuch", "/dev/null", "", "a\0b", 5, b"x"], ids=ascii)
def test_paths_that_are_no_directory(path: object) -> None:
    error = refused("durable", f"connect {path!a}", lambda: runnel.connect(path))  # type: ignore[arg-type]
    is_a_path = isinstance(path, str) and path not in ("", "a\0b")
    assert isinstance(error, runnel.OperationalError if is_a_path else runnel.InterfaceError)


CATALOGS: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"xyz",
    "a list": b"[]",
    "of another version": b'{"format": 99}',
    "without its parts": b'{"format": 1}',
    "no text": b"\xff\xfe",
    "nested too deeply": b"[" * 100_000,
}


@pytest.mark.parametrize("name", CATALOGS)
def test_damaged_catalog(tmp_path: Path, name: str) -> None:
    path = tmp_path / "db"
    filled(path)
    saved = (path / "catalog.json").read_bytes()
    (path / "catalog.json").write_bytes(CATALOGS[name])
    for _ in range(2):
        refused("durable", f"a catalog that is {name}", lambda: runnel.connect(path), tmp_path)
    assert (path / "catalog.json").read_bytes() == CATALOGS[name]
    (path / "catalog.json").write_bytes(saved)
    assert rows(path) == [(1, "a"), (2, "b")]


def test_a_catalog_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "db"
    filled(path)
    text = (path / "catalog.json").read_text()
    assert json.loads(text)["format"] == 3
    (path / "catalog.json").write_text(text[: len(text) // 2])
    with pytest.raises(runnel.OperationalError, match=r"the catalog of directory .* can't be read"):
        runnel.connect(path)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut to nothing": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "with a wrong bit in the middle": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
    ),
    "with a wrong bit at the start": lambda data: bytes([data[0] ^ 1]) + data[1:],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_rows_are_not_read_as_fewer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "db"
    filled(path)
    files = list((path / "maps").rglob("checkpoint-*"))
    assert files
    for file in files:
        file.write_bytes(DAMAGES[name](file.read_bytes()))
    refused("durable", f"rows {name}", lambda: rows(path), tmp_path)
    with runnel.connect(path) as connection:
        assert connection.cursor().execute("SELECT 1").fetchone() == (1,)
