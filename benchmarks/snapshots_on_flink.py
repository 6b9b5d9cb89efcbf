"""Runs the job of `snapshots` on Flink SQL in this process; prints its figures as JSON. Needs
PyFlink: `make flink`.

    python snapshots_on_flink.py ROWS KEYS WINDOW_SECONDS PARALLELISM INTERVAL_MS BACKEND FOLDER

INTERVAL_MS is the interval of the exactly-once checkpoints, 0: none. BACKEND is "hashmap" or
"rocksdb" (with incremental checkpoints). The checkpoints are written to FOLDER. "datagen", a
counter, generates the rows, with columns computed from it. The result is written to "blackhole".
The time is the job's net run time: starting the JVM and planning don't count.
"""

import json
import socket
import sys
import threading
import time
import urllib.request

from pyflink.table import EnvironmentSettings, TableEnvironment

SOURCE = """
    CREATE TABLE events (
        n BIGINT, k AS MOD(n * 2654435761, {keys}), v AS MOD(n, 1000),
        ts AS CAST(TO_TIMESTAMP_LTZ(n / 1000, 3) AS TIMESTAMP(3)),
        WATERMARK FOR ts AS ts
    ) WITH (
        'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
        'fields.n.end' = '{last}',
        'rows-per-second' = '100000000'
    )
"""
QUERY = """
    INSERT INTO results
    SELECT k, COUNT(*), SUM(v), MAX(v) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts),
        INTERVAL '{seconds}' SECOND))
    GROUP BY window_start, window_end, k HAVING COUNT(*) < 0
"""
SINK = (
    "CREATE TABLE results (k BIGINT, n BIGINT, s BIGINT, m BIGINT) WITH ('connector' = 'blackhole')"
)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def watch(port, job, found, ended):
    """Polls Flink's checkpoints into `found`, because Flink does not answer after the end of the
    job."""
    while not ended.wait(0.25):
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/jobs/{job}/checkpoints", timeout=2
            ) as answer:
                for item in json.load(answer)["history"]:
                    if item["status"] == "COMPLETED":
                        found[item["id"]] = (
                            item["end_to_end_duration"],
                            item["checkpointed_size"],
                            item["state_size"],
                        )
        except OSError:
            pass


def main(rows, keys, seconds, parallelism, interval, backend, folder):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    port = free_port()
    settings = {
        "parallelism.default": parallelism,
        "rest.bind-port": str(port),
        "rest.port": str(port),
    }
    settings["state.backend.type"] = backend
    if int(interval):
        settings["execution.checkpointing.interval"] = f"{interval} ms"
        settings["execution.checkpointing.mode"] = "EXACTLY_ONCE"
        settings["execution.checkpointing.dir"] = f"file://{folder}"
        settings["execution.checkpointing.incremental"] = "true"
    for name, value in settings.items():
        tables.get_config().set(name, value)
    tables.execute_sql(SOURCE.format(keys=keys, last=int(rows) - 1))
    tables.execute_sql(SINK)
    start = time.perf_counter()
    client = tables.execute_sql(QUERY.format(seconds=seconds)).get_job_client()
    found, ended = {}, threading.Event()
    watcher = threading.Thread(
        target=watch, args=(port, str(client.get_job_id()), found, ended), daemon=True
    )
    watcher.start()
    result = client.get_job_execution_result().result()
    wall = time.perf_counter() - start
    ended.set()
    watcher.join()
    checkpoints = [found[number] for number in sorted(found)]
    print(
        json.dumps(
            {"seconds": result.get_net_runtime() / 1000, "wall": wall, "checkpoints": checkpoints}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
