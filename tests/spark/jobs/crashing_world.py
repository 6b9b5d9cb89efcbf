"""A directory with jobs on Spark that write to each kind of sink, over a stream and over a table:
opened again as it was when the jobs were cut short, they must come to what they would have come to
otherwise."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import runnel
from tests.spark.jobs.crash_images import Image
from tests.spark.jobs.test_streaming import rows_of, until

START = datetime(2026, 1, 1)
COLUMNS = "(id BIGINT, k INTEGER, s VARCHAR)"
FILE_ROWS = 40
LATE = 3
"""How many rows of a file may have times of the file two before: Spark drops what was late before
the last batch."""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Kind:
    """A kind of sink. `options`: TYPE and OPTIONS of its mapping; `{place}` and `{name}` stand for
    a place of its own."""

    name: str
    options: str
    columns: str = COLUMNS
    is_exact: bool = True
    are_files: bool = False
    takes: tuple[str, ...] = ("id", "k", "s")


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "spark", "TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{place}')", are_files=True
        ),
        Kind(
            "ours",
            "TYPE File OPTIONS ('format' = 'parquet', 'path' = '{place}', "
            "'ignoreFileNotFound' = 'true')",
            are_files=True,
        ),
        Kind(
            "map",
            "TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')",
            '(id BIGINT EXTERNAL NAME "__key", k INTEGER, s VARCHAR)',
        ),
        Kind("duckdb", "TYPE DuckDB OPTIONS ('path' = '{place}.duckdb', 'create' = 'true')"),
        Kind(
            "delta",
            "TYPE Delta OPTIONS ('path' = '{place}', 'create' = 'true', 'partitionBy' = 'k')",
        ),
        Kind(
            "iceberg",
            "TYPE Iceberg OPTIONS ('table' = 'a.{name}', 'warehouse' = '{place}', "
            "'create' = 'true')",
        ),
        Kind(
            "folders",
            "TYPE File OPTIONS ('format' = 'parquet', 'path' = '{place}', "
            "'ignoreFileNotFound' = 'true', 'partitionBy' = 'k')",
        ),
        Kind(
            "like_delta",
            "TYPE Spark OPTIONS ('format' = 'like_delta', 'path' = '{place}')",
            "(id BIGINT, name VARCHAR)",
            takes=("id", "s"),
        ),
        Kind(
            "like_iceberg",
            "TYPE Spark OPTIONS ('format' = 'like_iceberg', 'path' = '{place}')",
            "(id BIGINT, name VARCHAR)",
            takes=("id", "s"),
        ),
        Kind("appended", "TYPE Spark OPTIONS ('table' = 'crash_{name}')", is_exact=False),
    )
}
STAND_INS = ("like_delta", "like_iceberg")
"""Delta and Iceberg through Spark, by data sources in Python that stand for them."""
WINDOWS = "windows"
"""The sink of a job over windows, whose state is Spark's."""


class World:
    """`kinds`: the sinks of jobs over a stream and of jobs over a table. `has_late`: the streams
    have late rows, too. They are dropped for sure where each batch has one file; a process that
    ends while Spark notes a batch leaves a file to the next one.
    """

    def __init__(
        self,
        home: Path,
        session: Any,
        kinds: tuple[Sequence[str], Sequence[str]],
        *,
        has_late: bool,
    ) -> None:
        self.folder = home / "world"
        self._session = session
        self._streams = home / "stream"
        self._tables = home / "table"
        self._has_late = has_late
        self.given = 0
        """How many files the streams have."""
        self._last = START
        self._jobs = {f"s_{name}": name for name in kinds[0]} | {
            f"t_{name}": name for name in kinds[1]
        }
        self._from_stream: list[tuple[Row, datetime]] = []
        for folder in (self.folder, self._streams, self._tables):
            folder.mkdir()
        self._from_table = [row for row, _ in self._file(self._tables, 100_000)]

    def feed(self) -> None:
        """One more file for the streams, whose event times end the windows before. Late rows are
        counted only where a watermark was lost."""
        self._last += timedelta(hours=1)
        self._from_stream += self._file(self._streams, self.given * FILE_ROWS)
        self.given += 1

    def forget(self, given: int) -> None:
        """Takes the last files of the streams away again: there are so many then."""
        while self.given > given:
            self.given -= 1
            (self._streams / f"{self.given * FILE_ROWS:08}.parquet").unlink()
            self._last -= timedelta(hours=1)
            del self._from_stream[-FILE_ROWS:]

    def _file(self, folder: Path, first: int) -> list[tuple[Row, datetime]]:
        ids = range(first, first + FILE_ROWS)
        rows = [(i, i % 3 if i % 11 else None, f"r{i}é" if i % 7 else None) for i in ids]
        times = [self._last + timedelta(seconds=i % FILE_ROWS) for i in ids]
        if self._has_late and first >= 2 * FILE_ROWS:
            times[-LATE:] = [time - timedelta(hours=2) for time in times[:LATE]]
        table = pa.table(
            [*zip(*rows, strict=True), times],
            schema=pa.schema(
                [
                    ("id", pa.int64()),
                    ("k", pa.int32()),
                    ("s", pa.string()),
                    ("at", pa.timestamp("us")),
                ]
            ),
        )
        unfinished = folder / f".{first}"
        pq.write_table(table, unfinished)
        os.utime(
            unfinished, (1_700_000_000 + first,) * 2
        )  # it is by these that Spark puts them in order
        unfinished.rename(folder / f"{first:08}.parquet")
        return list(zip(rows, times, strict=True))

    def opened(self) -> runnel.Connection:
        """A connection to the directory, with all that isn't there yet."""
        connection = runnel.connect(self.folder / "db", spark=self._session)
        try:
            self.bring_back(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def bring_back(self, connection: runnel.Connection) -> None:
        """Makes what isn't there yet, and has jobs go on that were suspended."""
        source = (
            "CREATE MAPPING IF NOT EXISTS {} (id BIGINT, k INTEGER, s VARCHAR, at TIMESTAMP{}) "
            "TYPE Spark OPTIONS ({})"
        )
        files = "'format' = 'parquet', 'path' = '{}'"
        mark = ", WATERMARK FOR at AS at - INTERVAL '1' SECOND"
        follow = (
            f"{files.format(self._streams)}, 'follow' = 'true', 'maxFilesPerTrigger' = '1', "
            "'idleTimeoutMillis' = '0'"
        )
        connection.execute(source.format("events", mark, follow))
        connection.execute(source.format("fixed", "", files.format(self._tables)))
        known = {row[1] for row in connection.execute("SHOW JOBS FULL").fetchall()}
        for job, name in self._jobs.items():
            connection.execute(self._mapping(job, name))
            if job not in known:
                connection.execute(self._job(job, name))
            elif (
                connection.job(job).status is runnel.JobStatus.SUSPENDED
                and connection.job(job).error is None
            ):
                connection.job(job).resume()

    def _mapping(self, job: str, name: str) -> str:
        place = self.folder / job
        if name == WINDOWS:
            kind, columns = KINDS["spark"], "(e TIMESTAMP, k INTEGER, n BIGINT, total BIGINT)"
        else:
            kind, columns = KINDS[name], KINDS[name].columns
        if not kind.is_exact:
            self._made(job, name)
        return (
            f"CREATE MAPPING IF NOT EXISTS {job} {columns} "
            f"{kind.options.format(place=place, name=job)}"
        )

    def _made(self, job: str, name: str) -> None:
        """Has Spark know its table."""
        own = KINDS[name].columns.replace("VARCHAR", "STRING")
        place = self.folder / job
        self._session.sql(
            f"CREATE TABLE IF NOT EXISTS crash_{job} {own} USING parquet LOCATION '{place}'"
        )

    def _job(self, job: str, name: str) -> str:
        head = (
            f"CREATE JOB {job} OPTIONS ('runtime' = 'spark', 'snapshotIntervalMillis' = '20') AS "
            f"INSERT INTO {job}"
        )
        if name == WINDOWS:
            return (
                f"{head} SELECT window_end, k, COUNT(*), SUM(id) "
                "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), "
                "INTERVAL '10' SECOND)) GROUP BY window_end, window_start, k"
            )
        source = "events" if job.startswith("s_") else "fixed"
        return f"{head} SELECT {', '.join(KINDS[name].takes)} FROM {source} WHERE id % 10 <> 3"

    def expected(self, job: str) -> Counter[Row]:
        """What the job's sink must have in the end."""
        if self._jobs[job] == WINDOWS:
            return self._windows()
        rows = [row for row, _ in self._from_stream] if job.startswith("s_") else self._from_table
        places = [("id", "k", "s").index(name) for name in KINDS[self._jobs[job]].takes]
        return Counter(tuple(row[i] for i in places) for row in rows if row[0] % 10 != 3)

    def _windows(self) -> Counter[Row]:
        groups: dict[tuple[datetime, int | None], list[int]] = {}
        newest, marks = START, [START, START]
        for first in range(0, len(self._from_stream), FILE_ROWS):
            for (number, k, _), time in self._from_stream[first : first + FILE_ROWS]:
                end = START + ((time - START) // timedelta(seconds=10) + 1) * timedelta(seconds=10)
                newest = max(newest, time)
                if end > marks[-2]:
                    groups.setdefault((end, k), []).append(number)
            marks.append(newest - timedelta(seconds=1))
        return Counter(
            (end, k, len(ids), sum(ids)) for (end, k), ids in groups.items() if end <= marks[-1]
        )

    def rows(self, connection: runnel.Connection, job: str) -> Counter[Row]:
        """What it has."""
        name = self._jobs[job]
        if name == WINDOWS or KINDS[name].are_files:
            return Counter(rows_of(self.folder / job))
        if name in STAND_INS and not (self.folder / job / "table.json").exists():
            return Counter()
        return Counter(connection.execute(f"SELECT * FROM {job}").fetchall())

    def finish(self, connection: runnel.Connection) -> list[str]:
        """Waits until the jobs have come to their end, or have written what is there; what is wrong
        then."""
        wrong = []
        for job, name in self._jobs.items():
            try:
                self._wait(connection, job)
                found, expected = self.rows(connection, job), self.expected(job)
                is_exact = name == WINDOWS or KINDS[name].is_exact
                lost, extra = (
                    expected - found,
                    found - expected if is_exact else set(found) - set(expected),
                )
                if lost or extra:
                    wrong.append(
                        f"{job}: {len(lost)} lost {list(lost)[:3]}, {len(extra)} too many "
                        f"{list(extra)[:3]}"
                    )
            except (AssertionError, runnel.Error) as error:
                wrong.append(f"{job}: {error}")
        return wrong

    def _wait(self, connection: runnel.Connection, job: str) -> None:
        handle = connection.job(job)
        if job.startswith("t_"):
            handle.join(60)
            return
        until(lambda: not self.expected(job) - self.rows(connection, job), handle, 100)
        handle.suspend(60)

    def traces(self) -> list[str]:
        """What nobody will finish."""
        patterns = ("_runnel-*", ".runnel-*")
        return [
            str(path.relative_to(self.folder))
            for pattern in patterns
            for path in self.folder.rglob(pattern)
        ]

    def put(self, image: Image) -> None:
        """Has the folder be as it is in an image, which is used up."""
        shutil.rmtree(self.folder)
        image.place.rename(self.folder)
        for job, name in self._jobs.items():
            if name != WINDOWS and not KINDS[name].is_exact:
                # Another process would not know which files the table had.
                self._session.sql(f"DROP TABLE IF EXISTS crash_{job}")
                self._made(job, name)

    def resumed(self, image: Image) -> list[str]:
        """What is wrong with what comes of the image that was put there."""
        self.feed()  # before, so that its batch follows the last one at once
        try:
            connection = self.opened()
        except runnel.Error as error:
            return [f"{image}: {error}"]
        try:
            wrong = self.finish(connection)
        finally:
            connection.close()
        return [
            f"{image}: {text}"
            for text in [*wrong, *(f"{trace} is left" for trace in self.traces())]
        ]

    def clear(self) -> None:
        """Spark forgets its tables."""
        for job in self._jobs:
            self._session.sql(f"DROP TABLE IF EXISTS crash_{job}")
