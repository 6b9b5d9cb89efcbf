"""COPY TO what is no file, and what an error leaves behind."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
