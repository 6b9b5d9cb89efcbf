"""A disk that is full for a while, which a limit on the size of files stands for, in a process of
its own: snapshots, files of the sink and the job's record, whichever is too large first. In the end
every row is there once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = """
import json, resource, signal, subprocess, sys, time
import runnel

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, size = sys.argv[1], int(sys.argv[2])


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, connection.execute("SHOW JOBS FULL").fetchall()
        time.sleep(0.002)  # nobody tells when a disk is full


def give(first, last, name="lines.json"):
    with open(f"{folder}/{name}", "a") as file:
        file.write(
            "".join(
                json.dumps({"k": k, "ts": ts}) + chr(10)
                for ts in range(first, last)
                for k in range(100)
            )
        )


def count():
    return connection.execute("SELECT COUNT(*) FROM out").fetchone()[0]


give(0, 25)
connection = runnel.connect(folder + "/directory", query_parallelism=1)
connection.execute(
    "CREATE MAPPING lines (k BIGINT, ts BIGINT, WATERMARK FOR ts AS ts - 0) TYPE File "
    f"OPTIONS ('path'='{folder}/lines.json', 'format'='json', 'follow'='true', 'pollMillis'='5')"
)
connection.execute(
    "CREATE MAPPING out (till BIGINT, k BIGINT, n BIGINT) TYPE File "
    f"OPTIONS ('format'='csv', 'path'='{folder}/out', 'ignoreFileNotFound'='true')"
)
connection.execute(
    "CREATE JOB j OPTIONS ('snapshotIntervalMillis'='20') AS INSERT INTO out "
    "SELECT window_end, k, COUNT(*) FROM TABLE(TUMBLE(TABLE lines, DESCRIPTOR(ts), 10)) "
    "GROUP BY window_end, k"
)
job = connection.job("j")
until(lambda: count() == 200)
give(25, 26, "more.json")
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
# Something to save, by a process that isn't limited.
subprocess.run(
    ["sh", "-c", 'ulimit -S -f unlimited; cat "$0/more.json" >> "$0/lines.json"', folder],
    check=True,
)
until(lambda: job.last_trouble is not None)
trouble, status = job.last_trouble, str(job.status)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
give(26, 45)
until(lambda: count() >= 400)
until(lambda: job.status is runnel.JobStatus.RUNNING)
job.suspend(30)
print(
    json.dumps(
        {
            "trouble": trouble,
            "status": status,
            "rows": connection.execute(
                "SELECT till, COUNT(*), COUNT(DISTINCT k), SUM(n) FROM out GROUP BY till ORDER BY 1"
            ).fetchall(),
        }
    )
)
connection.close()
"""


@pytest.mark.parametrize("size", [0, 100, 1500])
def test_a_full_disk(tmp_path: Path, size: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(tmp_path), str(size)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "File too large" in found["trouble"] and found["status"] in (
        "RUNNING",
        "NOT_RUNNING",
        "STARTING",
    )
    assert found["rows"] == [[till, 100, 100, 1000] for till in (10, 20, 30, 40)]
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []
