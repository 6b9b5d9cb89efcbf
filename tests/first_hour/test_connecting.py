"""Opening connections as users of DuckDB do."""

from __future__ import annotations

import zoneinfo
from pathlib import Path

import duckdb
import pytest

import runnel
from runnel.serving.command import main
from runnel.session.directory import Directory


def test_memory_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with runnel.connect(":memory:") as con:
        assert "in memory" in repr(con)
        assert con.execute("SELECT 1").fetchall() == [(1,)]
    assert not list(tmp_path.iterdir())


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"runnel {runnel.__version__}\n"


def test_a_directory_that_is_served_names_the_server(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "shop")
    try:
        with pytest.raises(runnel.OperationalError, match="or use another directory"):
            runnel.connect(tmp_path / "shop")
        directory.announce("runnel://127.0.0.1:4711")
        with pytest.raises(runnel.OperationalError) as error:
            runnel.connect(tmp_path / "shop")
        shown = 'it is served: runnel.connect("runnel://127.0.0.1:4711", token=…)'
        assert shown in str(error.value)
    finally:
        directory.close()
    with (
        runnel.connect(tmp_path / "shop"),
        pytest.raises(runnel.OperationalError, match="or use another directory"),
    ):
        runnel.connect(tmp_path / "shop")


def test_a_machine_without_zone_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file(key: str) -> zoneinfo.ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError(key)

    with runnel.connect() as con:
        with pytest.raises(runnel.ProgrammingError):
            con.execute("SET time_zone = 'Nowhere/City'")
        monkeypatch.setattr(zoneinfo, "ZoneInfo", no_file)
        with pytest.raises(runnel.OperationalError, match="no files of time zones") as error:
            con.execute("SET time_zone = 'Europe/Vienna'")
        assert "pip install tzdata" in str(error.value)


def test_a_duckdb_file_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "main.duckdb"
    with duckdb.connect(path) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a")
        made.execute("CREATE VIEW v AS SELECT a + 1 AS b FROM t")
    with (
        runnel.connect(path, read_only=True) as one,
        runnel.connect(database=str(path), config={"access_mode": "READ_ONLY"}) as two,
    ):
        for connection in (one, two):
            assert connection.sql("FROM t, v").fetchall() == [(1, 2)]
            assert connection.table("main.t").fetchall() == [(1,)]
        for statement in ("INSERT INTO t VALUES (2)", "DROP TABLE t", "CREATE TABLE z (a INT)"):
            with pytest.raises(runnel.NotSupportedError):
                one.execute(statement)
    with pytest.raises(runnel.IOException, match="not found"):
        runnel.connect(tmp_path / "none.duckdb", read_only=True)
    for other in (None, ":memory:", tmp_path):
        with pytest.raises(runnel.NotSupportedError, match="DuckDB file"):
            runnel.connect(other, read_only=True)


def test_the_config_of_duckdb(caplog: pytest.LogCaptureFixture) -> None:
    config = {"threads": 2, "memory_limit": "1GB", "enable_progress_bar": False}
    with runnel.connect(":memory:", config=config, time_zone="UTC") as connection:
        assert connection.execute("SHOW cooperative_threads").fetchone() == ("2",)
    assert "config: enable_progress_bar has no effect" in caplog.text
    with pytest.raises(runnel.CatalogException, match="nope"):
        runnel.connect(config={"nope": 1})
    with pytest.raises(runnel.NotSupportedError, match="integer_division"):
        runnel.connect(config={"integer_division": False})
