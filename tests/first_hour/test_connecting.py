"""Opening connections as users of DuckDB do."""

from __future__ import annotations

import zoneinfo
from pathlib import Path

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
