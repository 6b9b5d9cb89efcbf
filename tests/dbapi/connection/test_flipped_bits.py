"""A bit that the disk turned over: what was kept is read as it was, or an error names the file;
never as something else.

Each file that a durable connection keeps is tried, but for DuckDB's own and `lock`, which holds
nothing that is read.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import runnel
from runnel.statements.numbered_writes import NumberedWrite, write_once
from tests.effort import ALL
from tests.waiting import eventually

SAMPLE = 5
"""As many bits of each file are tried in the short form; all of them in the long one."""

MAP = (
    "CREATE MAPPING {} (__key BIGINT, this VARCHAR) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'varchar')"
)
Content = list[object]


def made(path: Path) -> None:
    """A directory with one of each kind of file, as a killed process leaves it: maps with logs and
    checkpoints, a view, a job with snapshots that is suspended, a snapshot that was exported, a
    numbered write."""
    connection = runnel.connect(path)
    for name in ("long", "short"):
        connection.execute(MAP.format(name))
    connection.cursor().executemany(
        "INSERT INTO long VALUES (?, ?)", [(i, str(i)) for i in range(20)]
    )
    connection.execute("CREATE VIEW few AS SELECT COUNT(*) AS n FROM long WHERE __key < 7")
    connection.execute("CREATE INDEX i ON long (this)")
    connection.execute(
        "CREATE JOB j OPTIONS ('processingGuarantee' = 'exactlyOnce', "
        "'snapshotIntervalMillis' = '10') AS "
        "SINK INTO short SELECT v, CAST(v AS VARCHAR) FROM TABLE(GENERATE_STREAM(100)) WHERE v < 3"
    )
    job = connection.job("j")
    assert eventually(lambda: job.last_snapshot is not None)
    job.suspend()
    job.export_snapshot("exported")
    connection.register("given", pa.table({"__key": [77], "this": ["numbered"]}))
    write = NumberedWrite(
        writer="w",
        number=1,
        statement="SINK",
        table="short",
        columns=("__key", "this"),
        rows=("given",),
    )
    assert write_once(connection._executor, write, lambda job: None) == 1
    connection.close()  # writes checkpoints
    connection = runnel.connect(path)
    for key in range(20, 23):
        connection.execute("INSERT INTO long VALUES (?, ?)", (key, str(key)))
    copy = path.with_name("killed")
    shutil.copytree(path, copy)
    connection.close()
    shutil.rmtree(path)
    copy.rename(path)


def content(path: Path) -> Content:
    """What a directory holds, as far as a user sees it."""
    with runnel.connect(path) as connection:
        found: Content = [
            sorted(connection.execute(f"SELECT * FROM {name}").fetchall())
            for name in ("long", "short")
        ]
        found += [
            connection.execute(f"SHOW {what}").fetchall()
            for what in ("MAPPINGS", "VIEWS", "SNAPSHOTS")
        ]
        found.append(connection.execute("SELECT n FROM few").fetchall())
        found.append(
            [(row[1], row[2], row[4]) for row in connection.execute("SHOW JOBS FULL").fetchall()]
        )
        job = connection.job("j")
        record = job.record
        writers = connection._database.writer_numbers
        found += [writers.load(file.stem) for file in sorted((path / "writers").glob("*.json"))]
        found.append(
            (record.text, record.created, record.snapshot, record.options, job.store.completed)
        )
        return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flipped") / "db"
    made(path)
    return path


def kinds(path: Path) -> dict[str, list[Path]]:
    """Files by kind."""
    found: dict[str, list[Path]] = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name != "lock" and not file.name.startswith("tables.duckdb"):
            parts = ["N" if part.isdecimal() else part for part in file.relative_to(path).parts]
            found.setdefault("/".join(parts), []).append(file.relative_to(path))
    return found


def flips(size: int, seed: str) -> Iterator[int]:
    """The bits to turn over in a file."""
    return (
        iter(range(8 * size))
        if ALL
        else iter(sorted(random.Random(seed).sample(range(8 * size), min(SAMPLE, 8 * size))))
    )


def outcome(path: Path, file: Path, before: Content, told: Callable[[], str]) -> str | None:
    """What is wrong with what a directory in which that file was damaged is read as."""
    try:
        found = content(path)
    except runnel.InternalError as error:
        return f"an internal error: {error}"
    except runnel.Error as error:
        story = f"{error} {told()}"
    else:
        if found == before:
            return None
        # Of snapshots the one before is used, or none where it was a named one: the log says so.
        story = told() if "snapshots" in file.parts else ""
    names = {file.name, str(file)}
    # Which file of a job's folder it is, is in the log, and in what SHOW JOBS says.
    return (
        None
        if any(name in story for name in names)
        else f"it is read as something else, and nobody says so: {story}"
    )


def test_a_flipped_bit_is_no_other_content(
    kept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = content_of_copy(kept, tmp_path)
    assert {"catalog.json", "jobs/N/job.json", "maps/long/current"} <= set(kinds(kept))
    assert any(kind.startswith("writers/") for kind in kinds(kept))
    assert any(kind.startswith("snapshots/") for kind in kinds(kept))
    wrong = []
    for kind, files in kinds(kept).items():
        file = files[-1]
        data = (kept / file).read_bytes()
        for bit in flips(len(data), kind):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            place = tmp_path / "copy"
            shutil.copytree(kept, place)
            (place / file).write_bytes(damaged)
            caplog.clear()
            with caplog.at_level(logging.WARNING, "runnel"):
                reason = outcome(place, file, before, lambda: "\n".join(caplog.messages))
            if reason is not None:
                wrong.append((str(file), bit, reason))
            shutil.rmtree(place)
    assert not wrong, "\n".join(map(str, wrong))


def content_of_copy(kept: Path, tmp_path: Path) -> Content:
    shutil.copytree(kept, tmp_path / "sound")
    return content(tmp_path / "sound")
