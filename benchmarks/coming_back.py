"""A process in which a job comes back: opens a directory, says when a row has come to the sink, and
waits for its end.

    python -m benchmarks.coming_back DIRECTORY

It loads nothing else, so that `restarts` measures what an application would wait.
"""

import json
import signal
import sys
import time

import runnel

TIMEOUT = 120.0
"""Seconds after which it is an error that no row has come."""


def main(directory: str) -> None:
    imported = time.time()
    connection = runnel.connect(directory)
    opened = time.time()
    job = connection.job("counts")
    until = time.monotonic() + TIMEOUT
    while not job.rows_out:
        if job.is_done or time.monotonic() > until:
            raise RuntimeError(f"no row has come out: {job.status}, {job.error}")
        time.sleep(0.001)
    print(json.dumps([imported, opened, time.time(), time.process_time()]), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
