"""COPY TO what is no file, and what an error leaves behind."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import runnel


def test_a_pipe_gets_the_rows_and_stays_a_pipe(
    connection: runnel.Connection, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        connection.execute(f"COPY (SELECT 1 AS a, 'x' AS b) TO '{pipe}' (FORMAT csv)")
        assert read.result(timeout=20) == "a,b\n1,x\n"
    assert pipe.is_fifo()


def test_a_device_stays_a_device(connection: runnel.Connection, tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    connection.execute(f"COPY (SELECT 1 AS a) TO '{link}' (FORMAT parquet)")
    assert link.is_symlink()
    with pytest.raises(runnel.Error):
        connection.execute(f"COPY (SELECT 1 / (a - 1) AS q FROM range(5) t(a)) TO '{link}' (CSV)")
    assert link.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_an_error_leaves_no_file_of_a_partition(
    connection: runnel.Connection, tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    with pytest.raises(runnel.DataError):
        connection.execute(
            f"""COPY (SELECT a % 3 AS k, 1 / (a - 99999) AS q FROM range(100000) t(a))
            TO '{folder}' (FORMAT csv, PARTITION_BY (k))"""
        )
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_paths_are_shown_as_they_are_written(
    connection: runnel.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    Path("d/1.csv").write_text("a\n1\n")
    Path("e.csv").write_text("a\n2\n")
    for query in (
        "SELECT filename FROM 'd/*.csv'",
        "SELECT filename FROM read_csv('./d/1.csv', filename = true)",
        "SELECT filename FROM read_csv(['e.csv', 'd/*.csv']) ORDER BY a",
        "SELECT file FROM glob('./d/*')",
        "SELECT filename FROM read_text('d/1.csv')",
        f"SELECT filename FROM read_csv('{tmp_path}/e.csv')",
        "SELECT a FROM 'd/*.csv' WHERE filename = 'd/1.csv'",
    ):
        expected = duckdb.sql(query).fetchall()
        assert connection.execute(query).fetchall() == expected, query
