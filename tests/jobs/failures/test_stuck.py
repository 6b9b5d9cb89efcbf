"""Jobs whose sink doesn't answer: what waits for them is bounded or can be cancelled, is told, and
nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, JobStatus
from runnel.catalog import Table
from runnel.connector import Connector, MappingDefinition, Sink, SinkRequest, Token
from runnel.errors import Error, ErrorCode, OperationalError
from runnel.serving.server import Server
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.serving.test_lost_clients import EXECUTING, client
from tests.sinks.test_durable_write import Disk, DiskSink, DiskTable
from tests.waiting import eventually

TOKEN = "a token of the tests"


class StuckSink(DiskSink):
    """Commits when it is free."""

    def __init__(self, disk: Disk, owner: str, gate: StuckConnector) -> None:
        super().__init__(disk, owner)
        self._gate = gate

    def commit(self, token: Token) -> None:
        self._gate.wait_in("commit")
        super().commit(token)

    def write(self, batch: pa.RecordBatch) -> None:
        self._gate.wait_in("write")
        super().write(batch)


class StuckConnector(Connector):
    """`place`: where its sinks stand still, while they aren't `free`."""

    name = "Stuck"

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.place = ""
        self.free, self.stands = Event(), Event()

    def open(self, definition: MappingDefinition) -> Table:
        return StuckTable(definition.name, self)

    def wait_in(self, place: str) -> None:
        if place == self.place:
            self.stands.set()
            assert self.free.wait(PATIENCE)


class StuckTable(DiskTable):
    def __init__(self, name: str, gate: StuckConnector) -> None:
        super().__init__()
        self.name = name
        self._gate = gate

    def sink(self, request: SinkRequest) -> Sink:
        return StuckSink(self._gate.disk, request.owner, self._gate)


class Place:
    """A directory with a job from a feed to a sink that may stand still; what the sink has outlives
    connections."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = Disk()
        self.feed = Feed()
        self.gates: list[StuckConnector] = []

    def opened(self) -> Connection:
        gate = StuckConnector(self.disk)
        self.gates.append(gate)
        connection = runnel.connect(self.path / "directory", query_parallelism=1)
        connection.add_connector(FeedConnector(feed=(self.feed,)))
        connection.add_connector(gate)
        return connection

    def with_job(self) -> Connection:
        connection = self.opened()
        connection.execute("CREATE OR REPLACE MAPPING feed TYPE Feed")
        connection.execute("CREATE OR REPLACE MAPPING sink (n BIGINT) TYPE Stuck")
        options = "OPTIONS ('snapshotIntervalMillis'='20')"
        connection.execute(
            f"CREATE JOB IF NOT EXISTS j {options} AS SINK INTO sink SELECT k FROM feed"
        )
        return connection

    @property
    def gate(self) -> StuckConnector:
        return self.gates[-1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    for name in (
        "runnel.named_jobs.registry.CLOSING",
        "runnel.named_jobs.lifecycle.CANCELLING",
        "runnel.runtime.light_job.CLOSING",
        "runnel.database.ABANDON_AFTER",
    ):
        monkeypatch.setattr(name, 0.2)
    made = Place(tmp_path)
    yield made
    for gate in made.gates:
        gate.free.set()


def within(seconds: float, action: Callable[[], object]) -> None:
    started = monotonic()
    action()
    assert monotonic() - started < seconds


@pytest.mark.parametrize("where", ["write", "commit"])
def test_a_sink_that_stands_still_doesn_t_keep_the_connection_from_closing(
    place: Place, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection = place.with_job()
    place.feed.give((1, 1), (2, 2))
    assert eventually(lambda: place.disk.visible == [1, 2])
    place.gate.place = where
    place.feed.give((3, 3))
    assert place.gate.stands.wait(PATIENCE)
    with caplog.at_level(logging.ERROR):
        within(10, connection.close)
    assert 'job "j" did not stop' in "\n".join(caplog.messages)
    assert "is blocked in a call; abandoning it" in "\n".join(caplog.messages)
    left = place.gate
    with place.with_job() as again:
        again.execute(
            "ALTER JOB j RESUME"
        )  # its connector wasn't there when the directory was opened
        place.feed.give((4, 4))
        assert eventually(lambda: sorted(place.disk.visible) == [1, 2, 3, 4])
        # What was left behind comes to itself, and changes nothing.
        left.free.set()
        place.feed.give((5, 5))
        assert eventually(lambda: sorted(place.disk.visible) == [1, 2, 3, 4, 5])
        again.execute("DROP JOB j")


def _is_waiting(cursor: runnel.Cursor, job: runnel.NamedJob) -> bool:
    return job.status is JobStatus.COMPLETING or bool(cursor._deadline and cursor._deadline._wakes)


@pytest.mark.parametrize(
    "statement",
    ["ALTER JOB j SUSPEND", "ALTER JOB j RESTART", "DROP JOB j", "CREATE SNAPSHOT s FOR JOB j"],
)
def test_a_statement_that_waits_for_a_job_can_be_cancelled(place: Place, statement: str) -> None:
    with place.with_job() as connection:
        place.gate.place = "write"
        place.feed.give((1, 1))
        assert place.gate.stands.wait(PATIENCE)
        cursor, errors = connection.cursor(), []

        def run() -> None:
            try:
                cursor.execute(statement)
            except Error as error:
                errors.append(error)

        thread = Thread(target=run)
        thread.start()
        job = connection.job("j")
        assert eventually(lambda: _is_waiting(cursor, job)), "it waits for the job"
        cursor.cancel()
        thread.join(PATIENCE)
        assert [error.code for error in errors] == [ErrorCode.CANCELLED]
        place.gate.free.set()
        wanted = {"ALTER JOB j SUSPEND": JobStatus.SUSPENDED, "DROP JOB j": JobStatus.FAILED}
        assert eventually(lambda: job.status is wanted.get(statement, JobStatus.RUNNING))


def test_a_server_ends_while_a_client_waits_for_a_job(place: Place) -> None:
    with place.with_job() as connection:
        server = Server(connection, TOKEN)
        place.gate.place = "write"
        place.feed.give((1, 1))
        assert place.gate.stands.wait(PATIENCE)
        errors: list[Error] = []
        with runnel.connect(server.url, token=TOKEN) as client:

            def run() -> None:
                try:
                    client.execute("ALTER JOB j SUSPEND")
                except Error as error:
                    errors.append(error)

            thread = Thread(target=run)
            thread.start()
            assert eventually(lambda: connection.job("j").status is JobStatus.COMPLETING)
            ended: list[bool] = []
            within(9, lambda: ended.append(server.stop()))
            assert ended == [True]
            thread.join(PATIENCE)
            assert len(errors) == 1
        place.gate.free.set()
        assert eventually(lambda: connection.job("j").status is JobStatus.SUSPENDED)
        assert place.disk.visible == [1]


@pytest.mark.parametrize("statement", ["ALTER JOB j SUSPEND", "CREATE SNAPSHOT s FOR JOB j"])
def test_a_client_that_is_killed_while_it_waits_for_a_job_leaves_nothing(
    place: Place, statement: str
) -> None:
    with place.with_job() as connection:
        server = Server(connection, TOKEN)
        place.gate.place = "write"
        place.feed.give((1, 1))
        assert place.gate.stands.wait(PATIENCE)
        waiting = connection._database.statements._waiting
        with client(EXECUTING, server, statement) as process:
            job = connection.job("j")
            assert eventually(
                lambda: (
                    job.status is JobStatus.COMPLETING or any(item._wakes for item in list(waiting))
                )
            )
            process.kill()
            assert eventually(lambda: not waiting and not len(server._statements)), (
                "they outlive their client"
            )
        place.gate.free.set()
        assert server.stop()


def test_what_a_light_job_waits_for_doesn_t_keep_the_connection_from_closing(place: Place) -> None:
    connection = place.opened()
    connection.execute("CREATE MAPPING sink (n BIGINT) TYPE Stuck")
    place.gate.place = "write"
    errors: list[Error] = []

    def run() -> None:
        try:
            connection.execute("INSERT INTO sink VALUES (1)")
        except OperationalError as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    assert place.gate.stands.wait(PATIENCE)
    within(10, connection.close)
    place.gate.free.set()
    thread.join(PATIENCE)
    assert len(errors) == 1
    assert place.disk.visible == []
