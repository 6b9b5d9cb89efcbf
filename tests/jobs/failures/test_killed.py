"""Processes killed with SIGKILL in the midst of their jobs: opened again, the jobs go on; no row is
lost or comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import runnel
from tests.waiting import eventually

PROCESS = """
import sys
import runnel

folder, files = sys.argv[1:]
connection = runnel.connect(folder)
cursor = connection.cursor()
if not cursor.execute("SHOW MAPPINGS").fetchall():
    cursor.execute(f'''CREATE MAPPING clicks (k BIGINT, ts BIGINT, WATERMARK FOR ts AS ts - 5)
        TYPE File
        OPTIONS ('path'='{files}', 'format'='json', 'follow'='true', 'idleTimeoutMillis'='0')''')
    cursor.execute('''CREATE MAPPING counts (__key BIGINT, this BIGINT) TYPE IMap
        OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')''')
    cursor.execute('''CREATE MAPPING copies (k BIGINT, ts BIGINT) TYPE DuckDB''')
cursor.execute('''CREATE JOB IF NOT EXISTS counting OPTIONS ('snapshotIntervalMillis'='20') AS
    INSERT INTO counts
    SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 100))
    GROUP BY window_end''')
cursor.execute('''CREATE JOB IF NOT EXISTS copying OPTIONS ('snapshotIntervalMillis'='30') AS
    INSERT INTO copies SELECT k, ts FROM clicks''')
print("ready", flush=True)
sys.stdin.read()
connection.close()
"""


def started(folder: Path, files: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, str(folder), str(files)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.stdout.close()


@pytest.mark.timeout(120)
def test_killed_again_and_again(tmp_path: Path) -> None:
    files, random = tmp_path / "in", Random(7)
    files.mkdir()
    given: list[tuple[int, int]] = []
    for number in range(3):
        process = started(tmp_path / "db", files)
        rows = [(random.randrange(10), 1000 * number + i + random.randrange(5)) for i in range(900)]
        given += rows
        with (files / f"{number}.json").open("w") as file:
            for start in range(0, len(rows), 100):
                file.writelines(
                    json.dumps({"k": k, "ts": ts}) + "\n" for k, ts in rows[start : start + 100]
                )
                file.flush()
                os.fsync(file.fileno())
        killed(process)
    with runnel.connect(tmp_path / "db") as connection:
        cursor = connection.cursor()

        def copied() -> bool:
            found = cursor.execute("SELECT COUNT(*) FROM copies").fetchall()
            return bool(found == [(len(given),)])

        assert eventually(copied, 60)
        assert Counter(cursor.execute("SELECT k, ts FROM copies").fetchall()) == Counter(given)
        counts = Counter(ts // 100 * 100 + 100 for _, ts in given)
        last = (max(ts for _, ts in given) - 5) // 100 * 100
        wanted = sorted((end, count) for end, count in counts.items() if end <= last)

        def counted() -> bool:
            return bool(cursor.execute("SELECT * FROM counts ORDER BY 1").fetchall() == wanted)

        assert eventually(counted, 60), (
            cursor.execute("SELECT * FROM counts ORDER BY 1").fetchall(),
            wanted,
        )
        assert [row[2] for row in cursor.execute("SHOW JOBS FULL").fetchall()] == [
            "RUNNING",
            "RUNNING",
        ]
