"""Input of the live jobs: a pushed stream, changes of a map, versions of a Delta table."""

from __future__ import annotations

from typing import Any

from runnel import Connection
from tests.stored_state.queries import LIVE
from tests.stored_state.reading import PATIENCE, time_at_sink
from tests.waiting import eventually

PUSHED = (((1, 2), (4, 3), (12, 5), (17, 7)), ((18, 11), (25, 13), (99, 17)))
CHANGES = (
    ("INSERT INTO texts VALUES ('c', 'third')", "UPDATE texts SET this = '2nd' WHERE __key = 'b'"),
    ("DELETE FROM texts WHERE __key = 'c'", "SINK INTO texts VALUES ('d', 'fourth')"),
)
VERSIONS = (
    ("INSERT INTO versions VALUES (1, 'a'), (2, 'b')", "INSERT INTO versions VALUES (3, NULL)"),
    ("INSERT INTO versions VALUES (4, 'ä'), (5, 'c')",),
)
ROWS = ({"pushed": 4, "changed": 2, "of_delta": 3}, {"pushed": 3, "changed": 2, "of_delta": 2})
"""For each part, the number of rows that each job reads."""


def define_live(connection: Connection) -> None:
    """The mappings of a Delta table."""
    options = "'path' = '/proc/self/cwd/in/versions'"
    connection.execute(
        f"CREATE MAPPING versions (id BIGINT, s VARCHAR) TYPE Delta OPTIONS ({options}, 'create' "
        "= 'true')"
    )
    connection.execute(
        "CREATE MAPPING followed_versions (id BIGINT, s VARCHAR) TYPE Delta "
        f"OPTIONS ({options}, 'follow' = 'true', 'pollMillis' = '10')"
    )


def register(connection: Connection) -> Any:
    """Registers the pushed stream, which no directory stores, and returns its writer."""
    return connection.register_stream(
        "stream", {"t": "BIGINT", "v": "BIGINT"}, time_column="t", max_disorder=0
    )


def feed(connection: Connection, writer: Any, number: int, before: int | None = None) -> None:
    """Writes part `number` (0 or 1), and waits until the jobs have read it.

    before: the part that the present executions of the jobs have read already.
    """
    writer.write(PUSHED[number])
    for sql in (*CHANGES[number], *VERSIONS[number]):
        connection.execute(sql)
    for job in LIVE:
        named, rows = connection.job(job.name), ROWS[number][job.name]
        rows += 0 if before is None else ROWS[before][job.name]
        assert eventually(lambda named=named, rows=rows: named.rows_in >= rows, PATIENCE), (
            job.name,
            named.error,
        )
    assert eventually(
        lambda: time_at_sink(connection.job("pushed")) >= PUSHED[number][-1][0], PATIENCE
    )


def resume_live(connection: Connection) -> Any:
    """Resumes the live jobs in a new process, and returns the writer of the pushed stream.

    A map's journal ends with its process, so the position in it has expired.
    """
    writer = register(connection)
    connection.execute("ALTER JOB changed OPTIONS ('expiredPosition' = 'latest')")
    for job in LIVE:
        connection.execute(f"ALTER JOB {job.name} RESUME")
    return writer
