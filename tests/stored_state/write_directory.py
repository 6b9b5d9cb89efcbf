"""Writes the stored directories: run once, with the code whose directories later code must open.

    python -m tests.stored_state.write_directory

It writes `stored_directory.tar.gz` (the directory, the files that its jobs have read, and the files
that remain to be read), `killed_directory.tar.gz` (the same of a process that was killed), and
`expected.json`: what the jobs have written in the end when this code resumes them. The script fails
unless the same jobs write the same rows when they are never stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import runnel
from runnel import Connection, Error
from tests.stored_state.continuing import (
    AGAIN,
    ARCHIVE,
    EXPECTED,
    KILLED_ARCHIVE,
    continued,
    continued_after_kill,
    described,
    written,
)
from tests.stored_state.feeding import define_live, feed, register
from tests.stored_state.inputs import AFTER, BEFORE, WRITTEN, write_part, write_tables
from tests.stored_state.queries import DROPPED, ENDING, EXPORTED, JOBS, LIVE, RUNNING, StoredJob
from tests.stored_state.reading import PATIENCE, wait_until_read
from tests.waiting import eventually

FOLDER = Path(__file__).parent
FOLLOWED = "'follow' = 'true', 'pollMillis' = '10'"
STREAMS = {
    "events": "id BIGINT, ts TIMESTAMP, k VARCHAR, v BIGINT, d DECIMAL(12, 2), f DOUBLE, "
    "s VARCHAR, b BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
    "payments": "id BIGINT, ts TIMESTAMP, k VARCHAR, v BIGINT, "
    "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
    "ticks": "t BIGINT, k VARCHAR, v BIGINT, WATERMARK FOR t AS t - 5",
    "raw": "t BIGINT, k VARCHAR, v BIGINT",
    "broken": "t BIGINT, v BIGINT",
    "columnar": "id BIGINT, v BIGINT",
}
ROOT = "/proc/self/cwd"
"""Folder of the mapped files: stored positions contain absolute paths, so it must be the same
everywhere."""
FORMATS = {"events": "json", "columnar": "parquet"}
RESTARTED = JOBS[::4]
"""Jobs that are restarted between the first two parts."""
FUNCTIONS = """
import pyarrow.compute as pc


def doubled(value):
    return pc.multiply(value, 2)


def spread(values):
    return pc.subtract(pc.max(values), pc.min(values))


def register(connection):
    connection.create_function("doubled", doubled, ["BIGINT"], "BIGINT", replace=True)
    connection.create_aggregate("spread", spread, ["BIGINT"], "BIGINT", nulls="skip", replace=True)
"""


def define(connection: Connection) -> None:
    """The catalog, and the maps with their rows."""
    execute = connection.execute
    for name, columns in STREAMS.items():
        more = ", 'idleTimeoutMillis' = '0'" if "WATERMARK" in columns else ""
        more += ", 'onError' = 'divert:malformed'" if name == "broken" else ""
        if name == "broken":
            execute(f"CREATE MAPPING malformed (record VARCHAR) {file_sink('malformed')}")
        kind = FORMATS.get(name, "csv")
        options = f"'path' = '{ROOT}/in/{name}', 'format' = '{kind}', {FOLLOWED}{more}"
        execute(f"CREATE MAPPING {name} ({columns}) TYPE File OPTIONS ({options})")
    file = "TYPE File OPTIONS ('path' = '/proc/self/cwd/in/{}.csv', 'format' = 'csv'{})"
    execute(f"CREATE MAPPING names (k VARCHAR, name VARCHAR) {file.format('names', '')}")
    refreshed = file.format("names", ", 'refreshMillis' = '3600000'")
    execute(f"CREATE MAPPING refreshed_names (k VARCHAR, name VARCHAR) {refreshed}")
    execute(
        "CREATE MAPPING prices (k VARCHAR, since TIMESTAMP, price DOUBLE, WATERMARK FOR since AS "
        "since) "
        f"{file.format('prices', '')}"
    )
    execute(
        "CREATE MAPPING bids TYPE Nexmark OPTIONS ('table' = 'bid', 'events' = '3000', 'rate' = "
        "'2000', 'eventRate' = '500', "
        "'partitions' = '2', 'stream' = 'true')"
    )
    define_maps(connection)


def define_maps(connection: Connection) -> None:
    execute = connection.execute
    execute(
        "CREATE MAPPING people (__key BIGINT, name VARCHAR, born DATE) TYPE IMap "
        "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
    )
    execute(
        "INSERT INTO people SELECT v, 'name ' || v, DATE '2000-01-01' FROM "
        "TABLE(GENERATE_SERIES(0, 20)) t(v)"
    )
    execute("UPDATE people SET name = 'one' WHERE __key = 1")
    execute("UPDATE people SET name = 'two' WHERE __key = 2")
    execute("DELETE FROM people WHERE __key = 11")
    execute("CREATE INDEX people_by_name ON people (name) TYPE HASH")
    execute("CREATE INDEX people_by_birth ON people (born) TYPE SORTED")
    values = "i INTEGER, d DECIMAL(20, 3), f DOUBLE, s VARCHAR, b BOOLEAN, y DATE, t TIME, "
    values += "ts TIMESTAMP, z TIMESTAMP WITH TIME ZONE, x VARBINARY, l BIGINT ARRAY, "
    values += "r ROW(a BIGINT, b VARCHAR), j JSON"
    execute(
        'CREATE MAPPING kinds (k1 BIGINT EXTERNAL NAME "__key.a", '
        'k2 VARCHAR EXTERNAL NAME "__key.b", '
        f"{values}) TYPE IMap "
        "OPTIONS ('keyFormat' = 'compact', 'keyCompactTypeName' = 'k', 'valueFormat' = 'compact', "
        "'valueCompactTypeName' = 'v')"
    )
    execute(
        "INSERT INTO kinds VALUES (1, 'a', 7, 1234567.891, 0.1, 'ü', TRUE, DATE '2026-02-03', "
        "TIME '04:05:06', "
        "TIMESTAMP '2026-02-03 04:05:06.789', TIMESTAMP WITH TIME ZONE '2026-02-03 "
        "04:05:06+01:00', X'00FF', "
        "ARRAY[1, NULL, 3], ROW(1, 'x'), JSON '{\"a\": [1, 2]}'), "
        "(2, 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    execute(
        "CREATE MAPPING texts (__key VARCHAR, this VARCHAR) TYPE IMap "
        "OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'varchar', 'journalCapacity' = '100')"
    )
    execute("INSERT INTO texts VALUES ('a', 'first'), ('b', 'second')")
    define_live(connection)
    execute(
        "CREATE VIEW adults AS SELECT __key, name FROM people WHERE born < DATE '2010-01-01' AND "
        "__key < 5"
    )
    execute(
        "CREATE DATA CONNECTION lake TYPE DuckDB OPTIONS ('path' = 'lake.duckdb', 'create' = "
        "'true')"
    )
    execute(
        "CREATE MAPPING named (k VARCHAR, n BIGINT) DATA CONNECTION lake OPTIONS ('table' = "
        "'numbers')"
    )
    execute("INSERT INTO named VALUES ('a', 1), ('b', 2)")


def define_sinks(connection: Connection) -> None:
    for job in (*JOBS, *ENDING, *LIVE, *AGAIN):
        sink = job.sink or file_sink(job.name)
        connection.execute(f"CREATE MAPPING {job.name} ({job.columns}) {sink}")
        if job.late:
            connection.execute(
                f"CREATE MAPPING {job.name}_late ({job.late}) {file_sink(f'{job.name}_late')}"
            )


def file_sink(name: str) -> str:
    path = f"'path' = '{ROOT}/out/{name}'"
    return f"TYPE File OPTIONS ({path}, 'format' = 'json', 'ignoreFileNotFound' = 'true')"


def create_jobs(connection: Connection, jobs: Iterable[StoredJob]) -> None:
    connection.execute("SET query_parallelism = 2")
    for job in jobs:
        connection.execute(f"SET time_zone = '{job.zone}'")
        options = f" OPTIONS ({job.options})" if job.options else ""
        connection.execute(
            f"CREATE JOB {job.name}{options} AS {job.sql}", job.arguments, timeout=PATIENCE
        )


def read_part(
    connection: Connection,
    root: Path,
    part: str,
    before: tuple[str, ...] = (),
    restarted: Collection[StoredJob] = (),
) -> None:
    """Waits until the jobs have read a part; writes it, unless it is the first.

    before: the parts that the jobs have read already.
    restarted: jobs whose present execution has read no part.
    """
    if part != BEFORE[0]:
        write_part(root / "in", part)
    for job in JOBS:
        parts = (part,) if job in restarted else (*before, part)
        wait_until_read(connection, job, parts, has_tables=job not in restarted)


def stop_jobs(connection: Connection) -> None:
    """Suspends or drops all jobs, but for those that are to be stored as running."""
    for name in DROPPED:
        connection.execute(f"DROP JOB {name} WITH SNAPSHOT of_{name}", timeout=PATIENCE)
    for job in (*JOBS, *LIVE):
        if job.name not in (*DROPPED, *RUNNING):
            connection.execute(f"ALTER JOB {job.name} SUSPEND", timeout=PATIENCE)


def end_jobs(connection: Connection) -> None:
    """Has jobs end in each way. Their records are retained for a century."""
    kept = "OPTIONS ('resultRetentionMillis' = '3155760000000')"
    endings = {"completed": "n.name", "failed": "CAST(CAST(n.name AS BIGINT) AS VARCHAR)"}
    for name, value in endings.items():
        connection.execute(f"CREATE MAPPING {name} (k VARCHAR, v VARCHAR) {file_sink(name)}")
        connection.execute(
            f"CREATE JOB {name} {kept} AS INSERT INTO {name} SELECT n.k, {value} FROM names n"
        )
        with suppress(Error):
            connection.job(name).join(PATIENCE)
    connection.execute(
        f"CREATE JOB cancelled {kept} AS INSERT INTO failed SELECT k, s FROM events",
        timeout=PATIENCE,
    )
    connection.job("cancelled").cancel()
    with suppress(Error):
        connection.job("cancelled").join(PATIENCE)


def prepare(root: Path) -> None:
    """Makes a root folder without rows of streams, and makes it the working directory."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    os.chdir(root)
    write_tables(root)
    for stream in STREAMS:
        (root / "in" / stream).mkdir()
    (root / "functions.py").write_text(FUNCTIONS)


def opened() -> Connection:
    """A connection to a new directory in the root folder, with its catalog."""
    connection = runnel.connect("directory")
    functions: dict[str, Any] = {}
    exec(FUNCTIONS, functions)
    functions["register"](connection)
    define(connection)
    define_sinks(connection)
    return connection


def write_without_stop(root: Path) -> dict[str, Any]:
    """The rows that the jobs write when they are never stopped, by mapping."""
    prepare(root)
    with opened() as connection:
        write_part(root / "in", BEFORE[0])
        writer = register(connection)
        create_jobs(connection, (*JOBS, *ENDING, *LIVE))
        parts = (*BEFORE, *AFTER)
        for number, part in enumerate(parts):
            read_part(connection, root, part, parts[:number])
        feed(connection, writer, 0)
        feed(connection, writer, 1, before=0)
        for job in (*JOBS, *LIVE):
            connection.execute(f"ALTER JOB {job.name} SUSPEND", timeout=PATIENCE)
        for job in ENDING:
            connection.job(job.name).join(PATIENCE)
        return written(connection, (*JOBS, *ENDING, *LIVE))


def write_and_stop(root: Path) -> dict[str, Any]:
    """Writes the directory to be stored, and returns its catalog, maps and jobs."""
    prepare(root)
    with opened() as connection:
        write_part(root / "in", BEFORE[0])
        writer = register(connection)
        create_jobs(connection, (*JOBS, *ENDING, *LIVE))
        for job in ENDING:
            named = connection.job(job.name)
            assert eventually(lambda named=named: named.rows_in > 0), named.status
            connection.execute(f"ALTER JOB {job.name} SUSPEND", timeout=PATIENCE)
        read_part(connection, root, BEFORE[0])
        for name in EXPORTED:
            connection.execute(f"CREATE SNAPSHOT of_{name} FOR JOB {name}", timeout=PATIENCE)
        for job in RESTARTED:
            connection.execute(f"ALTER JOB {job.name} RESTART", timeout=PATIENCE)
        read_part(connection, root, BEFORE[1], BEFORE[:1], RESTARTED)
        feed(connection, writer, 0)
        stop_jobs(connection)
        end_jobs(connection)
        return described(connection)


def write_and_kill(root: Path) -> None:
    """The directory of a process that was killed."""
    module = "tests.stored_state.write_killed_directory"
    subprocess.run([sys.executable, "-m", module, str(root)], check=True, cwd=FOLDER.parents[1])


def tidy(root: Path) -> None:
    """Adds the remaining parts, and removes files that are not to be stored."""
    for part in AFTER:
        write_part(root / "later", part)
    (root / "directory" / "lock").unlink()
    shutil.rmtree(root / "directory" / "temp", ignore_errors=True)
    (root / "functions.py").unlink()
    for log in root.glob("*/*/_delta_log/*.json"):  # the Delta library stores the location
        log.write_text(log.read_text("utf-8").replace(str(root), ROOT), "utf-8")
    naming = [
        path
        for path in root.rglob("*")
        if path.is_file() and str(root).encode() in path.read_bytes()
    ]
    assert not naming, f"these files name a folder of this machine: {naming}"


def pack(root: Path, name: Path) -> None:
    """Puts the root folder into an archive."""
    with tarfile.open(name, "w:gz", compresslevel=9) as archive:
        for path in sorted(root.rglob("*")):
            item = archive.gettarinfo(path, str(path.relative_to(root)))
            item.uid = item.gid = 0
            item.uname = item.gname = ""
            item.mtime = WRITTEN
            with path.open("rb") if path.is_file() else nullcontext() as content:
                archive.addfile(item, content)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = write_without_stop(Path(folder) / "whole")
        stopped, killed = Path(folder) / "stopped", Path(folder) / "killed"
        found = write_and_stop(stopped)
        write_and_kill(killed)
        for root, archive in ((stopped, ARCHIVE), (killed, KILLED_ARCHIVE)):
            tidy(root)
            pack(root, archive)
        os.chdir(stopped)
        found["written"] = continued(stopped)
        os.chdir(killed)
        of_killed = continued_after_kill(killed)
        os.chdir(FOLDER)
    for some in (found["written"], of_killed):
        different = {
            name: (rows, some[name])
            for name, rows in whole.items()
            if name in some and rows != some[name]
        }
        assert not different, different
    EXPECTED.write_text(encoded(found), "utf-8")


def encoded(found: dict[str, Any]) -> str:
    """JSON with a line for each mapping, or for each other table."""
    lines = {name: json.dumps(rows, ensure_ascii=False) for name, rows in found.items()}
    lines["written"] = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(rows, ensure_ascii=False)}"
        for name, rows in sorted(found["written"].items())
    ).join(("{\n", "\n}"))
    members = (f"{json.dumps(name)}: {text}" for name, text in sorted(lines.items()))
    return "{\n" + ",\n".join(members) + "\n}\n"


if __name__ == "__main__":
    main()
