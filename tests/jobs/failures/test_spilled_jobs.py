"""A job whose state is larger than its memory, killed with SIGKILL: it goes on from its snapshot,
and leaves no file behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import runnel
from tests.waiting import eventually

PROCESS = """
import sys
import runnel

folder, files = sys.argv[1:]
connection = runnel.connect(folder, memory_limit=2_000_000, query_parallelism=1)
cursor = connection.cursor()
cursor.execute(f'''CREATE MAPPING clicks (k VARCHAR, ts BIGINT, WATERMARK FOR ts AS ts - 5)
    TYPE File
    OPTIONS ('path'='{files}', 'format'='json', 'follow'='true', 'idleTimeoutMillis'='0')''')
cursor.execute("CREATE MAPPING counts (k VARCHAR, e BIGINT, c BIGINT) TYPE DuckDB")
cursor.execute('''CREATE JOB counting OPTIONS ('snapshotIntervalMillis'='200') AS INSERT INTO counts
    SELECT k, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 1000000))
    GROUP BY k, window_end''')
print("ready", flush=True)
for line in sys.stdin:
    rows = cursor.execute("SHOW JOBS FULL").fetchall()
    names = [item[0] for item in cursor.description]
    shown = dict(zip(names, rows[0]))
    print(shown["state_rows"], shown["spilled_bytes"], shown["last_snapshot"] or 0, flush=True)
"""
KEYS = 30_000


def key(number: int) -> str:
    return f"a key of some length, so that there is something to keep: {number:020}"


@pytest.mark.timeout(240)
def test_killed_with_state_in_files(tmp_path: Path) -> None:
    files = tmp_path / "in"
    files.mkdir()
    with (files / "0.json").open("w") as file:
        file.writelines(
            json.dumps({"k": key(number), "ts": number}) + "\n" for number in range(KEYS)
        )
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "db"), str(files)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        def told() -> list[int]:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return [int(item) for item in process.stdout.readline().split()]

        assert eventually(lambda: told()[0] >= KEYS and told()[1] > 1_000_000, 60, 0.1), told()
        before = told()
        # Without a new row the job would take no further snapshot.
        with (files / "0.json").open("a") as file:
            file.write(json.dumps({"k": "one more", "ts": KEYS}) + "\n")
        assert eventually(lambda: told()[2] > before[2], 60, 0.1), "they are in a snapshot"
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    left = [
        path
        for path in (tmp_path / "db").rglob("*")
        if path.is_file() and "temp" in path.parent.name
    ]
    assert left == []
    with runnel.connect(tmp_path / "db", memory_limit=2_000_000, query_parallelism=2) as connection:
        cursor = connection.cursor()
        with (files / "1.json").open("w") as file:
            file.writelines(
                json.dumps({"k": key(number), "ts": number + KEYS}) + "\n"
                for number in range(0, KEYS, 2)
            )
            file.write(json.dumps({"k": "last", "ts": 3_000_000}) + "\n")
        asked = (
            "SELECT c, COUNT(*), COUNT(DISTINCT k) FROM counts WHERE e = 1000000 GROUP BY c "
            "ORDER BY c"
        )
        wanted = [(1, KEYS // 2 + 1, KEYS // 2 + 1), (2, KEYS // 2, KEYS // 2)]
        assert eventually(lambda: cursor.execute(asked).fetchall() == wanted, 90), cursor.execute(
            asked
        ).fetchall()
        assert connection._database.memory.spilled_bytes > 1_000_000, (
            "what was restored is in files again"
        )
        cursor.execute("DROP JOB counting")
