"""The version of a directory's format: checked first, upgraded, and refused if it is newer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

import runnel
from runnel.session import directory_version
from runnel.session.directory_version import (
    CATALOG_FORMAT,
    FILE,
    VERSION,
    DirectoryRecord,
    Origin,
    encoded,
    read_record,
    write_record,
)
from runnel.storage.durable_files import replace_file, sealed, unsealed

MAP = (
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
)


def files(path: Path) -> Mapping[str, bytes]:
    """The content of all files of a directory, by path."""
    return {
        str(item.relative_to(path)): item.read_bytes() for item in path.rglob("*") if item.is_file()
    }


def filled(path: Path) -> None:
    with runnel.connect(path) as connection:
        connection.execute(MAP)
        connection.execute("INSERT INTO m VALUES (1, 10)")


def test_a_new_directory_has_the_current_version(tmp_path: Path) -> None:
    filled(tmp_path / "db")
    assert read_record(tmp_path / "db") == DirectoryRecord(VERSION, runnel.__version__)
    assert (tmp_path / "db" / FILE).stat().st_mode & 0o777 == 0o600
    with runnel.connect(tmp_path / "db") as connection:
        assert connection.execute("SELECT * FROM m").fetchall() == [(1, 10)]


def test_a_record_with_an_origin_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = DirectoryRecord(VERSION, runnel.__version__, Origin("/data/db", 1_700_000_000_000_000))
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record


def test_a_directory_without_a_version_is_upgraded(tmp_path: Path) -> None:
    filled(tmp_path / "db")
    (tmp_path / "db" / FILE).unlink()
    before = files(tmp_path / "db")
    assert read_record(tmp_path / "db").version == 1
    with runnel.connect(tmp_path / "db") as connection:
        assert connection.execute("SELECT * FROM m").fetchall() == [(1, 10)]
    assert read_record(tmp_path / "db").version == VERSION
    after = files(tmp_path / "db")
    assert after.keys() - before.keys() == {FILE}
    # Version 2 adds one file: an earlier Runnel can still open the directory.
    assert {name for name in before if name != "lock" and before[name] != after[name]} == set()


@pytest.mark.parametrize("has_checksum", [True, False], ids=["sealed", "plain"])
def test_a_newer_version_is_refused_before_anything_is_read_or_written(
    tmp_path: Path, has_checksum: bool
) -> None:
    path = tmp_path / "db"
    filled(path)
    content = {"format": VERSION + 1, "written_by": "9.4.0", "unknown": [1]}
    replace_file(path / FILE, sealed(content) if has_checksum else json.dumps(content))
    (path / "catalog.json").write_text("not read")
    (path / "lock").unlink()
    before = files(path)
    with pytest.raises(runnel.OperationalError) as caught:
        runnel.connect(path)
    error = caught.value
    assert error.code is runnel.ErrorCode.NOT_SUPPORTED
    assert f"version {VERSION + 1}" in error.message
    assert f"up to {VERSION}" in error.message
    assert error.detail is not None and "9.4.0" in error.detail
    assert error.hint is not None and "restore a backup" in error.hint
    assert files(path) == before


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": 2}', '{"format": "x"}', '{"format": 0}', '{"format": -1}'],
)
def test_a_damaged_version_is_an_error(tmp_path: Path, text: str) -> None:
    filled(tmp_path / "db")
    (tmp_path / "db" / FILE).write_text(text)
    before = files(tmp_path / "db")
    with pytest.raises(runnel.OperationalError, match="version of directory") as caught:
        runnel.connect(tmp_path / "db")
    assert caught.value.detail is not None and caught.value.detail.startswith(FILE)
    assert files(tmp_path / "db") == before


def test_each_changed_bit_of_the_version_is_found(tmp_path: Path) -> None:
    data = encoded(DirectoryRecord()).encode()
    for bit in range(0, len(data) * 8, 7):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / FILE).write_bytes(changed)
        with pytest.raises(runnel.OperationalError, match="version of directory"):
            read_record(tmp_path)


def test_an_interrupted_upgrade_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "db"
    filled(path)
    (path / FILE).unlink()
    calls: list[Path] = []

    def change(folder: Path) -> None:
        calls.append(folder)
        if len(calls) == 1:
            raise OSError("the disk is full")

    monkeypatch.setattr(directory_version, "UPGRADES", {1: change})
    with pytest.raises(runnel.OperationalError, match="can't be used"):
        runnel.connect(path)
    assert read_record(path).version == 1
    with runnel.connect(path) as connection:  # the failed opening has released the directory
        assert connection.execute("SELECT * FROM m").fetchall() == [(1, 10)]
    assert calls == [path, path]
    runnel.connect(path).close()
    assert calls == [path, path], "an upgraded directory is not upgraded again"


def test_code_without_the_version_file_refuses_a_newer_catalog(tmp_path: Path) -> None:
    """The rule for later versions: a Runnel that knows no `directory.json` checks the number in
    `catalog.json`."""
    filled(tmp_path / "db")
    file = tmp_path / "db" / "catalog.json"
    content = unsealed(file.read_bytes(), CATALOG_FORMAT)
    content["format"] = CATALOG_FORMAT + 1
    replace_file(file, sealed(content))
    with pytest.raises(runnel.OperationalError, match="catalog of directory") as caught:
        runnel.connect(tmp_path / "db")
    assert caught.value.detail is not None and (str(CATALOG_FORMAT + 1) in caught.value.detail)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_not_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "db"
    filled(path)
    (path / FILE).unlink()
    path.chmod(0o500)
    try:
        with pytest.raises(runnel.OperationalError, match="can't be used"):
            runnel.connect(path)
    finally:
        path.chmod(0o700)
