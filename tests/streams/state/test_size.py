"""What a job's metrics say of the state that its operators keep: it comes, and goes with the
windows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import runnel
from runnel.runtime.light_job import Job
from tests.waiting import eventually

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
QUERIES = {
    "tumbling": (
        "SELECT window_end, k, COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 10)) "
        "GROUP BY window_end, k"
    ),
    "sliding": (
        "SELECT window_end, k, COUNT(*) FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), 10, 5)) "
        "GROUP BY window_end, k"
    ),
    "distinct": (
        "SELECT window_end, COUNT(DISTINCT k) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 10)) "
        "GROUP BY window_end"
    ),
    "sessions": (
        "SELECT k, COUNT(*) FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), 10)) "
        "GROUP BY k, window_end"
    ),
    "session rows": "SELECT * FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), 10))",
    "top": "SELECT k, window_end FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 10)) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY k) = 1",
    "join": (
        "SELECT a.k FROM s AS a JOIN s AS b ON a.k = b.k AND a.ts BETWEEN b.ts - 10 AND b.ts + 10"
    ),
}


def state(connection: runnel.Connection) -> tuple[int, int]:
    """Rows and bytes that the one job keeps."""
    (job,) = (item for item in connection._database.jobs.running() if isinstance(item, Job))
    vertices = job.metrics().values()
    return sum(item.state_rows for item in vertices), sum(item.state_bytes for item in vertices)


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_state_comes_and_goes(name: str) -> None:
    with runnel.connect(query_parallelism=1) as connection:
        writer = connection.register_stream("s", SCHEMA, time_column="ts", max_disorder=0)
        cursor = connection.execute(QUERIES[name])
        writer.write([(key, 1) for key in range(500)])
        assert eventually(lambda: state(connection)[0] >= 500)
        assert state(connection)[1] >= 500 * 16
        writer.write([(1, 1_000)])
        assert eventually(lambda: state(connection)[0] <= 4)
        writer.close()
        assert cursor.fetchall()


def test_what_is_in_files_is_told() -> None:
    with runnel.connect(query_parallelism=1, memory_limit=2_000_000) as connection:
        writer = connection.register_stream("s", SCHEMA, time_column="ts", max_disorder=0)
        cursor = connection.execute(QUERIES["tumbling"])
        for first in range(0, 60_000, 5_000):
            writer.write([(key, 1) for key in range(first, first + 5_000)])

        def told() -> tuple[int, int, int]:
            with connection.cursor() as asking:
                rows = asking.execute("SHOW JOBS FULL").fetchall()
                names = [item[0] for item in asking.description or ()]
            found = [dict(zip(names, row, strict=True)) for row in rows]
            (job,) = [item for item in found if item["query"].startswith("SELECT window_end")]
            return job["state_rows"], job["state_bytes"], job["spilled_bytes"]

        assert eventually(lambda: told()[0] >= 60_000)
        _, size, spilled = told()
        assert 60_000 * 8 < spilled <= size
        assert size - spilled < 2_000_000
        writer.write([(1, 1_000)])
        assert len([cursor.fetchone() for _ in range(60_000)]) == 60_000
        assert eventually(lambda: told()[2] == 0), "what was given takes no room"
        writer.close()
        assert len(cursor.fetchall()) == 1
