"""A process that resumes a job: it opens a directory, reports when a row has arrived in the sink,
and waits until it is killed.

    python -m benchmarks.coming_back DIRECTORY

It imports nothing else, so that `restarts` measures the time that an application would wait.
"""

import json
import signal
import sys
import time

import runnel

TIMEOUT = 120.0
"""Seconds after which a missing row is an error."""


def main(directory: str) -> None:
    imported = time.time()
    connection = runnel.connect(directory)
    opened = time.time()
    job = connection.job("counts")
    until = time.monotonic() + TIMEOUT
    while not job.rows_out:
        if job.is_done or time.monotonic() > until:
            raise RuntimeError(f"no row has arrived: {job.status}, {job.error}")
        time.sleep(0.001)
    print(json.dumps([imported, opened, time.time(), time.process_time()]), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
