"""Data from a pipe: `cat f.csv | runnel -c "FROM read_csv('/dev/stdin')"`, and named pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

import runnel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")

ROWS = 30_000
CSV = "id,name\n" + "".join(f"{number},n{number}\n" for number in range(ROWS))


def piped(sql: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "runnel", "-At", "-c", sql],
        input=data,
        capture_output=True,
        check=False,
        timeout=60,
    )


def test_csv_is_read_from_its_beginning_and_again() -> None:
    sql = (
        "SELECT count(*), min(id), max(name) FROM read_csv('/dev/stdin');"
        "DESCRIBE FROM read_csv('/dev/stdin', header = true);"
        "SELECT count(*) FROM read_csv('/dev/stdin') a JOIN read_csv('/dev/stdin') b USING (id)"
    )
    done = piped(sql, CSV.encode())
    assert done.stderr == b""
    first, *columns, last = done.stdout.decode().splitlines()
    assert (first, last) == (f"{ROWS}|0|n9999", str(ROWS))
    assert [line.split("|")[:2] for line in columns] == [["id", "BIGINT"], ["name", "VARCHAR"]]


def test_json_and_lines() -> None:
    done = piped("SELECT sum(a) FROM read_json('/dev/stdin')", b'{"a": 1}\n{"a": 41}\n')
    assert (done.stdout, done.stderr) == (b"42\n", b"")
    done = piped("SELECT count(*) FROM read_lines('/dev/stdin')", b"a\nb\nc")
    assert (done.stdout, done.stderr) == (b"3\n", b"")


def test_the_standard_input_by_another_name() -> None:
    done = piped("FROM read_csv('-')", b"a\n1\n")
    assert b"HINT: the standard input is '/dev/stdin'" in done.stderr
    done = piped("FROM '/dev/stdin'", b"a\n1\n")
    assert b"HINT: name it: read_csv(" in done.stderr


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[str]:
    """A named pipe, into which a thread writes CSV."""
    path = tmp_path / "rows.csv"
    os.mkfifo(path)
    writer = Thread(target=path.write_text, args=(CSV,))
    writer.start()
    yield str(path)
    writer.join(30)


def test_a_named_pipe(pipe: str) -> None:
    with runnel.connect() as connection:
        query = f"SELECT count(*), sum(id) FROM '{pipe}'"
        expected = [(ROWS, ROWS * (ROWS - 1) // 2)]
        assert connection.execute(query).fetchall() == expected
        assert connection.execute(query).fetchall() == expected
        connection.execute("CREATE TABLE t (id INT, name VARCHAR)")
        connection.execute(f"COPY t FROM '{pipe}'")
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(ROWS,)]
