"""`FROM 'f.csv'`: the file's columns at each execution, and bounds of access."""

from __future__ import annotations

from pathlib import Path

import pytest

import runnel


def test_the_columns_are_found_at_each_execution(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    query = f"FROM '{file}'"
    with runnel.connect() as connection:
        file.write_text("a\n1\n")
        assert connection.execute(query).fetchall() == [(1,)]
        file.write_text("b,c\nx,1.5\n")
        cursor = connection.execute(query)
        assert [column.name for column in cursor.description or ()] == ["b", "c"]
        assert cursor.fetchall() == [("x", 1.5)]
        file.unlink()
        with pytest.raises(runnel.OperationalError, match="not found"):
            connection.execute(query)


def test_a_relative_path_is_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.csv").write_text("a\n1\n")
    monkeypatch.chdir(tmp_path)
    with runnel.connect() as connection:
        assert connection.execute("SELECT f.a FROM 'f.csv'").fetchall() == [(1,)]
        assert connection.execute("FROM './f.csv' SELECT a").fetchall() == [(1,)]
        assert connection.execute('SELECT a FROM "f.csv"').fetchall() == [(1,)]


def test_a_job_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a,b\n1,x\n2,y\n")
    with runnel.connect(tmp_path / "directory") as connection:
        connection.execute("CREATE MAPPING out (a BIGINT, b VARCHAR) TYPE DuckDB")
        connection.execute(f"CREATE JOB j AS INSERT INTO out FROM '{tmp_path}/f.csv' WHERE a > 1")
        connection.job("j").join(60)
        assert connection.execute("FROM out").fetchall() == [(2, "y")]
