"""Backups of a directory whose jobs run: each is restored in another process, and its jobs write
what they write without an interruption; no row is lost or comes twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import runnel
from runnel.connectors.imap.storage import durable
from tests.effort import ALL
from tests.waiting import eventually

BACKUPS = 50 if ALL else 4
ROWS = 100
"""The number of rows between two backups."""

RESTORED = """
import json, sys, time
import runnel

request = json.loads(sys.argv[1])
found = []
for folder in request["folders"]:
    with runnel.connect(folder) as connection:
        def rows(query):
            return [list(row) for row in connection.execute(query).fetchall()]
        end = time.monotonic() + 60
        while (
            rows("SELECT COUNT(*) FROM copies") < [[request["rows"]]]
            or rows("SELECT COUNT(*) FROM counts") < [[request["windows"]]]
            or rows("SELECT COUNT(*) FROM totals") < [[request["windows"]]]
        ):
            assert time.monotonic() < end, (folder, connection.execute("SHOW JOBS FULL").fetchall())
            time.sleep(0.002)  # another process has no event
        found.append({
            "copies": rows("SELECT k, ts FROM copies"),
            "counts": rows("SELECT * FROM counts ORDER BY 1"),
            "totals": rows("SELECT * FROM totals ORDER BY 1"),
            "status": sorted(row[2] for row in connection.execute("SHOW JOBS FULL").fetchall()),
        })
print(json.dumps(found))
"""

MAP = (
    "CREATE MAPPING {} (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
)
JOB = (
    "CREATE JOB {} OPTIONS ('processingGuarantee'='exactlyOnce', 'snapshotIntervalMillis'='{}') AS "
)


def started(path: Path, lines: Path) -> runnel.Connection:
    connection = runnel.connect(path, query_parallelism=2)
    connection.execute(
        "CREATE MAPPING clicks (k BIGINT, ts BIGINT, WATERMARK FOR ts AS ts - 5) TYPE File "
        f"OPTIONS ('path'='{lines}', 'format'='json', 'follow'='true', 'pollMillis'='5', "
        "'idleTimeoutMillis'='0')"
    )
    for name in ("counts", "totals"):
        connection.execute(MAP.format(name))
    connection.execute("CREATE MAPPING copies (k BIGINT, ts BIGINT) TYPE DuckDB")
    windows = "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 100)) GROUP BY window_end"
    for statement in (
        # INSERT fails for a key that exists: a window that is written twice fails the job.
        JOB.format("counting", 10) + f"INSERT INTO counts SELECT window_end, COUNT(*) {windows}",
        JOB.format("adding", 15) + f"INSERT INTO totals SELECT window_end, SUM(k) {windows}",
        JOB.format("copying", 20) + "INSERT INTO copies SELECT k, ts FROM clicks",
    ):
        connection.execute(statement)
    return connection


@pytest.mark.timeout(60 * BACKUPS)
def test_backups_under_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LEAST_LOG", 2000)  # so that checkpoints are written meanwhile
    random = Random(11)
    given: list[tuple[int, int]] = []
    backups = []
    lines = tmp_path / "in" / "lines.json"
    lines.parent.mkdir()
    lines.touch()
    with started(tmp_path / "db", lines.parent) as connection:

        def copied() -> int:
            row = connection.execute("SELECT COUNT(*) FROM copies").fetchone()
            return int(row[0])

        for number in range(BACKUPS):
            rows = [
                (random.randrange(10), len(given) + i + random.randrange(5)) for i in range(ROWS)
            ]
            given += rows
            with lines.open("a") as file:
                file.writelines(json.dumps({"k": k, "ts": ts}) + "\n" for k, ts in rows)
            least = len(given) - random.randrange(2 * ROWS)
            assert eventually(lambda least=least: copied() >= least)
            backups.append(str(tmp_path / f"backup-{number}"))
            connection.execute(f"BACKUP TO '{backups[-1]}'")
    last = (max(ts for _, ts in given) - 5) // 100 * 100
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    for k, ts in given:
        if (end := ts // 100 * 100 + 100) <= last:
            counts[end] += 1
            totals[end] += k
    request = {"folders": backups, "rows": len(given), "windows": len(counts)}
    process = subprocess.run(
        [sys.executable, "-c", RESTORED, json.dumps(request)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not process.returncode, process.stderr
    for backup, found in zip(backups, json.loads(process.stdout), strict=True):
        assert found["status"] == ["RUNNING"] * 3, backup
        assert Counter(map(tuple, found["copies"])) == Counter(given), backup
        assert found["counts"] == [list(item) for item in sorted(counts.items())], backup
        assert found["totals"] == [list(item) for item in sorted(totals.items())], backup
