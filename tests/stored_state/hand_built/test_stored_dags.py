"""A directory with hand-built jobs that earlier code wrote: it opens, and its jobs resume exactly.

The jobs had read two parts of the events; a third one follows. The results are those of bounded
queries over all parts.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel import Connection, JobStatus
from tests.effort import some
from tests.stored_state.hand_built.directory import (
    ARCHIVE,
    EXPECTED,
    EXPORTED,
    MAKERS,
    PATIENCE,
    RUNNING,
    SUSPENDED,
    define,
    submit,
)
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/cwd").exists(), reason="stored paths begin with /proc/self/cwd"
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def written(connection: Connection, name: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(f"SELECT * FROM {name}").fetchall()]


def expected(root: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    with runnel.connect() as connection:
        define(connection, follows=False)
        return {
            name: Counter(tuple(row) for row in connection.execute(query).fetchall())
            for name, query in EXPECTED.items()
        }


def test_the_directory_opens(root: Path) -> None:
    with runnel.connect("directory") as connection:
        statuses = {name: connection.job(name).status for name in (*SUSPENDED, RUNNING)}
        assert {name: statuses[name] for name in SUSPENDED} == dict.fromkeys(
            SUSPENDED, JobStatus.SUSPENDED
        )
        job = connection.job(RUNNING)
        assert eventually(lambda: job.status is JobStatus.RUNNING, PATIENCE), job.error
        cursor = connection.execute("SHOW SNAPSHOTS")
        names = [item[0] for item in cursor.description or ()]
        shown = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        assert [(item["name"], item["job"]) for item in shown] == [(f"of_{EXPORTED}", EXPORTED)]


@pytest.mark.parametrize(("parallelism", "updates"), some([(3, True), (1, True), (2, False)], 2))
def test_its_jobs_go_on(root: Path, parallelism: int, updates: bool) -> None:
    with runnel.connect("directory") as connection:
        connection.execute(f"SET query_parallelism = {parallelism}")
        for part in (root / "later").iterdir():
            part.rename(root / "in" / "events" / part.name)
        submit(connection, EXPORTED, f"of_{EXPORTED}")
        for name in SUSPENDED:
            connection.execute(f"ALTER JOB {name} RESUME")
        if updates:
            for name in MAKERS:
                connection.job(name).update(MAKERS[name](name), timeout=PATIENCE)
        wanted = expected(root)
        for name, rows in wanted.items():
            assert eventually(
                lambda name=name, rows=rows: len(written(connection, name)) >= rows.total(),
                PATIENCE,
            ), (name, connection.job(name).error, len(written(connection, name)), rows.total())
            connection.execute(f"ALTER JOB {name} SUSPEND", timeout=PATIENCE)
        found = {name: written(connection, name) for name in wanted}
    numbers: dict[str, list[int]] = {}
    for row in found["joined"]:
        numbers.setdefault(row[0], []).append(row[3])
    assert {key: sorted(items) for key, items in numbers.items()} == {
        key: list(range(100, 100 + len(items))) for key, items in numbers.items()
    }, "the numbers of a key continue"
    found["joined"] = [row[:3] for row in found["joined"]]
    assert {name: Counter(rows) for name, rows in found.items()} == wanted
