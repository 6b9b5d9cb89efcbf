"""Ctrl-C: the job ends, nothing of a write is seen, the connection goes on. Each in a process of
its own, whose main thread gets a true signal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROLOGUE = """
import os, signal, sys, threading, time
import runnel
connection = runnel.connect()
cursor = connection.cursor()

main = threading.main_thread().ident

def is_inside():
    # Whether the main thread drives a job or waits for its rows.
    frame = sys._current_frames()[main]
    while frame is not None:
        if frame.f_code.co_name in ("run_here", "next_batch", "next_within"):
            return bool(connection.jobs())
        frame = frame.f_back
    return False

def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            os._exit(3)
        time.sleep(0.001)  # where the main thread is can only be looked at

def interrupt_when_inside():
    def interrupt():
        wait_for(is_inside)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()

def is_interrupted(action):
    try:
        action()
    except KeyboardInterrupt:
        return True
    return False
"""
EPILOGUE = """
wait_for(lambda: not connection.jobs())
assert cursor.execute("SELECT 1 + 1").fetchall() == [(2,)]
connection.close()
print("done")
"""
CASES = {
    "a write that is being started": """
cursor.execute(
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
)
sql = "INSERT INTO m SELECT v, v FROM TABLE(GENERATE_SERIES(1, 10000000000)) WHERE v % 100000 = 0"
for _ in range(20):

    def interrupt():
        wait_for(connection.jobs)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert is_interrupted(lambda: cursor.execute(sql))
    wait_for(lambda: not connection.jobs())
assert cursor.execute("SELECT COUNT(*) FROM m").fetchone() == (0,)
""",
    "a fetch that waits for a row": """
cursor.execute("SELECT v FROM TABLE(GENERATE_STREAM(0))")
interrupt_when_inside()
assert is_interrupted(cursor.fetchone)
""",
    "a fetch of all of a stream that may end": """
writer = connection.register_stream("events", {"a": "INT"})
cursor.execute("SELECT a FROM events")
writer.write([(1,)])
interrupt_when_inside()
assert is_interrupted(cursor.fetchall)
""",
    "a fetch of much": """
cursor.execute(
    "SELECT v FROM TABLE(GENERATE_SERIES(1, 1000000000)) WHERE v % 1000000007 = 1000000006"
)
interrupt_when_inside()
assert is_interrupted(cursor.fetchall)
""",
    "an aggregation": """
interrupt_when_inside()
assert is_interrupted(
    lambda: cursor.execute(
        "SELECT SUM(v * 3) FROM TABLE(GENERATE_SERIES(1, 10000000000))"
    ).fetchall()
)
""",
    "a write": """
cursor.execute(
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
)
interrupt_when_inside()
sql = "INSERT INTO m SELECT v, v FROM TABLE(GENERATE_SERIES(1, 10000000000)) WHERE v % 100000 = 0"
assert is_interrupted(lambda: cursor.execute(sql))
assert cursor.execute("SELECT COUNT(*) FROM m").fetchone() == (0,)
cursor.execute("INSERT INTO m VALUES (1, 1)")
""",
}


@pytest.mark.parametrize("name", CASES)
def test_interrupted(name: str, tmp_path: Path) -> None:
    code = PROLOGUE + CASES[name] + EPILOGUE
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
