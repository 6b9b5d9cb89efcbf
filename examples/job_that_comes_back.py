"""A job that is killed and comes back: it counts lines that are being written, and no line is lost
or counted twice.

python examples/job_that_comes_back.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import runnel

SHOPS = ("Oslo", "Lviv", "Porto")
ORDERS = "(shop VARCHAR, price INT, n INT, WATERMARK FOR n AS n)"
COUNTS = "(__key INT, orders BIGINT, total BIGINT) TYPE IMap"
JOB = """
    CREATE JOB IF NOT EXISTS counting OPTIONS ('snapshotIntervalMillis'='50') AS
    INSERT INTO counts
    SELECT window_end, COUNT(*), SUM(price) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(n), 100))
        GROUP BY window_end
"""


def serve(folder: Path) -> None:
    """What the process does that will be killed: it opens the directory, where the job is from the
    second time on."""
    connection = runnel.connect(folder / "db")
    if not connection.execute("SHOW MAPPINGS").fetchall():
        files = (
            f"'path'='{folder / 'orders'}', 'format'='json', 'follow'='true', "
            "'idleTimeoutMillis'='0'"
        )
        connection.execute(f"CREATE MAPPING orders {ORDERS} TYPE File OPTIONS ({files})")
        connection.execute(f"CREATE MAPPING counts {COUNTS}")
        connection.execute(JOB)
    print(connection.job("counting").status, flush=True)
    sys.stdin.read()


def write_orders(file: Path, first: int, last: int) -> None:
    lines = [
        json.dumps({"shop": SHOPS[n % 3], "price": n % 7, "n": n}) + "\n"
        for n in range(first, last)
    ]
    file.write_text("".join(lines))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "orders").mkdir()
        for run in range(3):
            command = [sys.executable, __file__, str(folder)]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as process:
                assert process.stdout is not None
                print(f"run {run + 1}: the job is {process.stdout.readline().strip()}")
                write_orders(folder / "orders" / f"{run}.json", run * 1000, (run + 1) * 1000)
                time.sleep(0.2)  # somewhere in the midst of it
                os.kill(process.pid, signal.SIGKILL)
        with runnel.connect(folder / "db") as connection:
            while connection.execute("SELECT COUNT(*) FROM counts").fetchone() < (29,):
                time.sleep(0.01)  # the last window stays open: another order may come
            print(
                connection.execute(
                    "SELECT COUNT(*), SUM(orders), SUM(total) FROM counts"
                ).fetchall()
            )
            print("as it should be:", [(29, 2900, sum(n % 7 for n in range(2900)))])


if __name__ == "__main__":
    serve(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
