"""The columns of an unchanged file are inferred once; a change of it is seen by the next query."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import runnel
from runnel.connectors.files.functions import table_functions


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the calls that infer columns."""
    calls: list[str] = []
    real = table_functions.open_table

    def count(definition, *others):
        calls.append(definition.name)
        return real(definition, *others)

    monkeypatch.setattr(table_functions, "open_table", count)
    return calls


def written(path: Path, text: str, seconds: int) -> Path:
    path.write_text(text, "utf-8")
    os.utime(path, (seconds, seconds))
    return path


def test_an_unchanged_file_is_inferred_once(tmp_path: Path, opened: list[str]) -> None:
    path = written(tmp_path / "f.csv", "a\n1\n", 1_000_000_000)
    with runnel.connect() as connection:
        for _ in range(3):
            assert connection.execute(f"FROM '{path}'").fetchall() == [(1,)]
        assert connection.execute(f"SUMMARIZE '{path}'").fetchone()[:4] == ("a", "BIGINT", "1", "1")
    assert len(opened) == 1


def test_a_changed_file_is_inferred_again(tmp_path: Path, opened: list[str]) -> None:
    path = written(tmp_path / "f.csv", "a\n1\n", 1_000_000_000)
    with runnel.connect() as connection:
        assert connection.execute(f"FROM '{path}'").fetchall() == [(1,)]
        written(path, "a\nx\n", 1_000_000_001)
        assert connection.execute(f"FROM '{path}'").fetchall() == [("x",)]
        assert len(opened) == 2
        path.unlink()
        with pytest.raises(runnel.OperationalError, match="not found"):
            connection.execute(f"FROM '{path}'")


def test_other_options_are_another_call(tmp_path: Path, opened: list[str]) -> None:
    path = written(tmp_path / "f.csv", "a\n1\n", 1_000_000_000)
    with runnel.connect() as connection:
        assert connection.execute(f"FROM read_csv('{path}')").fetchall() == [(1,)]
        query = f"FROM read_csv('{path}', header = false)"
        assert connection.execute(query).fetchall() == [("a",), ("1",)]
        query = f"FROM read_csv('{path}', types = {{'a': 'VARCHAR'}})"
        assert connection.execute(query).fetchall() == [("1",)]
        assert connection.execute(f"FROM read_csv('{path}')").fetchall() == [(1,)]
    assert len(opened) == 3


def test_a_file_of_the_last_seconds_is_inferred_again(tmp_path: Path, opened: list[str]) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a\n1\n", "utf-8")
    with runnel.connect() as connection:
        for _ in range(2):
            assert connection.execute(f"FROM '{path}'").fetchall() == [(1,)]
        path.write_text("a\nx\n", "utf-8")
        assert connection.execute(f"FROM '{path}'").fetchall() == [("x",)]
    assert len(opened) == 3


def test_a_new_file_of_a_pattern_is_seen(tmp_path: Path, opened: list[str]) -> None:
    written(tmp_path / "f1.csv", "a\n1\n", 1_000_000_000)
    with runnel.connect() as connection:
        query = f"SELECT a FROM '{tmp_path}/*.csv' ORDER BY a"
        assert connection.execute(query).fetchall() == [(1,)]
        written(tmp_path / "f2.csv", "a\nx\n", 1_000_000_000)
        assert connection.execute(query).fetchall() == [("1",), ("x",)]
    assert len(opened) == 2
