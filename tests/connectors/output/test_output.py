"""TYPE Discard and TYPE Print: options, text of rows, counts and guarantees in jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import runnel
from runnel import JobStatus
from runnel.connector import ColumnDefinition, Connector, MappingDefinition
from runnel.connectors.output.printing import PrintConnector
from runnel.sqltypes import BIGINT
from runnel.testing import ManualClock
from tests.connectors.conformance import OptionsConformance
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.waiting import eventually

SECOND = 1_000_000_000


class TestPrintOptions(OptionsConformance):
    known_option = "standardError"

    def connector(self, path: Path) -> Connector:
        return PrintConnector()

    def definition(self, path: Path) -> MappingDefinition:
        return MappingDefinition("p", (ColumnDefinition("id", BIGINT),), {"standardError": "true"})


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("x TYPE {}", r'mapping "x" needs columns\s+HINT: declare them: CREATE MAPPING x \(col'),
        ("x EXTERNAL NAME y (a INT) TYPE {}", "a {} mapping has no external name"),
        ("x (a INT EXTERNAL NAME b) TYPE {}", 'column "a" of a {} mapping has no external name'),
        ("x (a INT) TYPE {} OBJECT TYPE z", 'connector {} has no object type "z"'),
        ("x (a INT) TYPE {} OPTIONS ('path' = 'f')", 'unknown option "path" of connector {}'),
    ],
)
@pytest.mark.parametrize("connector", ["Discard", "Print"])
def test_wrong_definitions(connector: str, definition: str, message: str) -> None:
    with runnel.connect() as connection, pytest.raises(runnel.Error) as caught:
        connection.execute("CREATE MAPPING " + definition.format(connector))
    caught.match(message.format(connector))


@pytest.mark.parametrize("connector", ["Discard", "Print"])
def test_a_sink_is_not_read(connector: str) -> None:
    with runnel.connect() as connection:
        connection.execute(f"CREATE MAPPING x (a INT) TYPE {connector}")
        for statement in ("SELECT * FROM x", "UPDATE x SET a = 1", "DELETE FROM x"):
            with pytest.raises(runnel.NotSupportedError, match='"x"'):
                connection.execute(statement)


def test_printed_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with runnel.connect(time_zone="Europe/Berlin") as connection:
        connection.execute("CREATE MAPPING p (a BIGINT, b VARCHAR, c DOUBLE) TYPE Print")
        connection.execute("INSERT INTO p VALUES (1, 'Zoë', 1.5), (2, NULL, NULL)")
        connection.execute("INSERT INTO p (b) VALUES ('only')")
        assert connection.execute("INSERT INTO p SELECT 1, 'x', 0 WHERE FALSE").rowcount == 0
        connection.execute(
            "CREATE MAPPING q (t TIMESTAMP, z TIMESTAMP WITH TIME ZONE, v VARBINARY, "
            "n NUMERIC(4, 2), l BIGINT ARRAY) TYPE Print "
            "OPTIONS ('prefix' = 'q', 'standardError' = 'true')"
        )
        connection.execute(
            "SINK INTO q VALUES (TIMESTAMP '2024-01-01 00:00:00', "
            "TIMESTAMP WITH TIME ZONE '2024-01-01 00:00:00+02', CAST('ab' AS VARBINARY), "
            "1.5, [1, 2])"
        )
    out, err = capsys.readouterr()
    assert out == "+I[1, Zoë, 1.5]\n+I[2, null, null]\n+I[null, only, null]\n"
    assert err == "q> +I[2024-01-01 00:00:00, 2023-12-31 22:00:00+00, 6162, 1.50, [1,2]]\n"


def test_a_process_without_a_console(monkeypatch: pytest.MonkeyPatch) -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE MAPPING p (a BIGINT) TYPE Print")
        monkeypatch.setattr(sys, "stdout", None)
        assert connection.execute("INSERT INTO p VALUES (1)").rowcount == 1


def test_discarded_rows_are_counted() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE MAPPING d (a BIGINT, b ROW(x INT, y VARCHAR)) TYPE Discard")
        rows = "TABLE(GENERATE_SERIES(1, 100000))"
        inserted = connection.execute(f"INSERT INTO d (a) SELECT v FROM {rows} AS t(v)")
        assert inserted.rowcount == 100_000


def restarted(connection: runnel.Connection, clock: ManualClock, feed: Feed) -> runnel.NamedJob:
    """A job that wrote two rows, failed after its snapshot, and wrote a third one."""
    connection.add_connector(FeedConnector(feed=(feed,)))
    connection.execute("CREATE MAPPING feed TYPE Feed")
    connection.execute("CREATE JOB j AS INSERT INTO out SELECT k, ts FROM feed LIMIT 3")
    job = connection.job("j")
    feed.give((1, 10), (2, 20))
    assert eventually(lambda: job.metrics()["limit"].rows_in == 2)
    clock.advance(10 * SECOND)
    assert eventually(lambda: job.last_snapshot is not None)
    feed.fail("the source is down")
    assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
    clock.advance(SECOND)
    assert job.await_status(JobStatus.RUNNING, PATIENCE)
    feed.give((3, 30))
    job.join(PATIENCE)
    return job


def test_a_job_prints_after_a_restart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    clock = ManualClock()
    with runnel.connect(tmp_path / "directory", clock=clock) as connection:
        connection.execute("CREATE MAPPING out (k BIGINT, ts BIGINT) TYPE Print")
        restarted(connection, clock, Feed())
    assert capsys.readouterr().out == "+I[1, 10]\n+I[2, 20]\n+I[3, 30]\n"


def test_a_job_discards_exactly_once(tmp_path: Path) -> None:
    clock = ManualClock()
    with runnel.connect(tmp_path / "directory", clock=clock) as connection:
        connection.execute("CREATE MAPPING out (k BIGINT, ts BIGINT) TYPE Discard")
        plan = connection.execute(
            "EXPLAIN CREATE JOB x AS INSERT INTO out SELECT v, v FROM TABLE(GENERATE_STREAM(1))"
        ).fetchall()
        assert any("exactlyOnce" in str(line) for line in plan), plan
        restarted(connection, clock, Feed())
        found = connection.execute("SELECT status FROM information_schema.jobs").fetchall()
        assert found == [("COMPLETED",)]
