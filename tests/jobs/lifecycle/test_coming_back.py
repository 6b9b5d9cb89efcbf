"""A process in which a job comes back loads nothing that only some statements need: that would be
most of a restart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import runnel

COME_BACK = """
import sys
import runnel
with runnel.connect(sys.argv[1]) as connection:
    job = connection.job("counts")
    assert job.status is runnel.JobStatus.RUNNING, job.status
    connection.execute("CREATE SNAPSHOT again FOR JOB counts")
    print(*sorted({"pandas", "duckdb", "pyspark", "polars", "pyarrow.dataset"} & set(sys.modules)))
"""


def test_a_job_comes_back_without_heavy_modules(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "1.csv").write_text("k,ts\n1,2026-01-01 00:00:01\n2,2026-01-01 00:00:02\n")
    with runnel.connect(tmp_path / "directory") as connection:
        connection.execute(
            "CREATE MAPPING events (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) TYPE File "
            f"OPTIONS ('path' = '{files}', 'format' = 'csv', 'follow' = 'true')"
        )
        connection.execute(
            "CREATE MAPPING results (__key BIGINT, n BIGINT) TYPE IMap "
            "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
        )
        connection.execute(
            "CREATE JOB counts AS SINK INTO results SELECT k, COUNT(*) AS n "
            "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
            "GROUP BY window_end, k"
        )
        connection.execute("CREATE SNAPSHOT first FOR JOB counts")
    command = [sys.executable, "-c", COME_BACK, str(tmp_path / "directory")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
