"""Who defined something decides what it may reach, whoever uses it, and also after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import Table, View
from runnel.connector import Connector, MappingDefinition
from runnel.connectors.arrow.tables import registered_table
from runnel.session.session import OWNER, Caller, Session
from runnel.statements.numbered_writes import NumberedWrite, write_once
from runnel.statements.run import SessionExecutor
from tests.serving.bounds.doors import Doors, doors
from tests.serving.bounds.test_bounds import MAP, Place, refused
from tests.waiting import eventually

READ = "SELECT * FROM TABLE(LINES_FILE('{}'))"
MAPPING = "CREATE MAPPING {} TYPE File OPTIONS ('format' = 'lines', 'path' = '{}')"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def opened(place: Place) -> Iterator[Doors]:
    with doors(place.kept, place.data) as made:
        yield made


class Stranger(Connector):
    """A connector of another package, which shows whether it was given bounds."""

    name = "Stranger"

    def open(self, definition: MappingDefinition) -> Table:
        if definition.access is not None:
            raise runnel.OperationalError("it has bounds")
        return registered_table(definition.name, pa.table({"a": [1]}))


def test_plans_are_not_shared_across_bounds(place: Place, opened: Doors) -> None:
    opened.owner.execute("CREATE VIEW own AS " + READ.format(place.outside / "secret.txt"))
    statement = READ.format(place.outside / "secret.txt")
    for _ in range(3):
        assert len(opened.owner.execute(statement).fetchall()) == 1
        refused(opened.user, statement)
        assert len(opened.user.execute("SELECT * FROM own").fetchall()) == 1


def test_users_read_and_write_what_the_owner_mapped(place: Place, opened: Doors) -> None:
    opened.owner.execute(MAPPING.format("secret", place.outside / "secret.txt"))
    assert len(opened.user.execute("SELECT * FROM secret").fetchall()) == 1
    out = f"OPTIONS ('format' = 'csv', 'path' = '{place.outside}/out')"
    opened.owner.execute(f"CREATE MAPPING out (a BIGINT) TYPE File {out}")
    opened.user.execute("INSERT INTO out VALUES (1)")
    assert opened.owner.execute("SELECT a FROM out").fetchall() == [(1,)]
    opened.user.execute("CREATE VIEW over AS SELECT * FROM secret")
    assert len(opened.user.execute("SELECT * FROM over").fetchall()) == 1


def test_users_change_only_what_users_defined(place: Place, opened: Doors) -> None:
    owner, user = opened.owner, opened.user
    owner.execute(MAP)
    owner.execute("CREATE INDEX i ON m (this)")
    owner.execute("CREATE VIEW v AS SELECT 1 AS a")
    owner.execute("CREATE JOB j AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(1)) AS t(v)")
    owner.execute("CREATE SNAPSHOT s FOR JOB j")
    for statement in (
        "DROP MAPPING m",
        MAP.replace("CREATE", "CREATE OR REPLACE"),
        "CREATE INDEX more ON m (__key)",
        "DROP INDEX i",
        "DROP VIEW v",
        "CREATE OR REPLACE VIEW v AS SELECT 2 AS a",
        "DROP JOB j",
        "DROP JOB j WITH SNAPSHOT mine",
        "ALTER JOB j SUSPEND",
        "ALTER JOB j OPTIONS ('snapshotIntervalMillis' = '1')",
        "ALTER JOB j AS SINK INTO m SELECT 1, 1 FROM TABLE(GENERATE_STREAM(1))",
        "CREATE SNAPSHOT mine FOR JOB j",
        "CREATE OR REPLACE SNAPSHOT s FOR JOB j",
        "DROP SNAPSHOT s",
        (
            "CREATE JOB k OPTIONS ('initialSnapshotName' = 's') AS SINK INTO m SELECT v, v "
            "FROM TABLE(GENERATE_STREAM(1)) AS t(v)"
        ),
        "SELECT * FROM TABLE(SNAPSHOT_STATE('s', 'x'))",
        "VERIFY JOB j",
    ):
        refused(user, statement)
    owner.execute("DROP JOB j")
    user.execute("CREATE VIEW mine AS SELECT 1 AS a")
    user.execute("CREATE OR REPLACE VIEW mine AS SELECT 2 AS a")
    owner.execute("CREATE OR REPLACE VIEW mine AS SELECT 3 AS a")  # from now on it is the owner's
    refused(user, "DROP VIEW mine")


def test_texts_of_the_owners_statements_are_not_shown_to_users(opened: Doors) -> None:
    opened.owner.execute("SELECT 'secret'").fetchall()
    opened.user.execute("SELECT 'open'").fetchall()
    assert "secret" in str(opened.owner.execute("SHOW PLANS").fetchall())
    shown = str(opened.user.execute("SHOW PLANS").fetchall())
    assert "open" in shown
    assert "secret" not in shown


def test_statements_of_the_owner_that_run_are_not_shown_to_users(opened: Doors) -> None:
    sql = "SELECT v, '{}' FROM TABLE(GENERATE_STREAM(5))"
    running = [
        client.execute(sql.format(text))
        for client, text in ((opened.owner, "secret"), (opened.user, "open"))
    ]
    assert "secret" in str(opened.owner.execute("SHOW JOBS FULL").fetchall())
    shown = str(opened.user.execute("SHOW JOBS FULL").fetchall())
    assert "open" in shown
    assert "secret" not in shown
    for cursor in running:
        cursor.close()


def test_users_cancel_only_the_light_jobs_of_users(opened: Doors) -> None:
    sql = "SELECT v, '{}' FROM TABLE(GENERATE_STREAM(5))"
    owners = opened.owner.execute(sql.format("owner"))
    users = opened.user.execute(sql.format("user"))
    find = "SELECT id FROM information_schema.jobs WHERE query LIKE ?"
    ((of_owner,),) = opened.owner.execute(find, ("%owner%TABLE(G%",)).fetchall()
    ((of_user,),) = opened.owner.execute(find, ("%user%TABLE(G%",)).fetchall()
    refused(opened.user, f"CANCEL JOB {of_owner}")
    assert owners.fetchone() == (0, "owner")
    opened.user.execute(f"CANCEL JOB {of_user}")
    with pytest.raises(runnel.OperationalError) as caught:
        while users.fetchone() is not None:
            pass
    assert caught.value.code is runnel.ErrorCode.CANCELLED
    opened.owner.execute(f"CANCEL JOB {of_owner}")
    owners.close()


@pytest.mark.parametrize(
    "name", ["storage.key", "storage.client_kwargs", "storage.headers", "storage.sas_url"]
)
def test_options_that_give_access_are_shown_to_the_owner_only(opened: Doors, name: str) -> None:
    options = f"'path' = 'memory://h/a.csv', 'format' = 'csv', '{name}' = 'HUNTER2'"
    opened.owner.execute(f"CREATE MAPPING m (a BIGINT) TYPE File OPTIONS ({options})")
    for sql in (
        "SELECT GET_DDL('relation', 'm')",
        "SELECT GET_DDL('relation', x) FROM (VALUES ('m')) AS v(x)",
    ):
        assert "HUNTER2" in str(opened.owner.execute(sql).fetchall())
        shown = str(opened.user.execute(sql).fetchall())
        assert "memory://h/a.csv" in shown
        assert "HUNTER2" not in shown
    assert "HUNTER2" not in str(
        opened.user.execute("SELECT mapping_options FROM information_schema.mappings").fetchall()
    )


def test_connectors_of_other_packages_say_that_they_keep_bounds(opened: Doors) -> None:
    class Keeping(Stranger):
        name = "Keeping"
        keeps_bounds = True

    for connector in (Stranger(), Keeping()):
        opened.served.add_connector(connector)
    refused(opened.user, "CREATE MAPPING s TYPE Stranger")
    opened.owner.execute("CREATE MAPPING s TYPE Stranger")
    assert opened.user.execute("SELECT a FROM s").fetchall() == [(1,)]
    with pytest.raises(runnel.OperationalError, match="it has bounds"):
        opened.user.execute("CREATE MAPPING k TYPE Keeping")


def test_registrations_of_the_owner_stay(opened: Doors) -> None:
    data = pa.table({"a": [1]})
    opened.owner.register("owned", data)
    opened.user.register("lent", data)
    opened.user.register("lent", pa.table({"a": [2]}))
    with pytest.raises(runnel.ProgrammingError, match="is the owner's"):
        opened.user.register("owned", data)
    with pytest.raises(runnel.ProgrammingError, match="is the owner's"):
        opened.user.unregister("owned")
    opened.user.unregister("lent")
    assert opened.user.execute("SELECT a FROM owned").fetchall() == [(1,)]


def test_what_a_user_defined_keeps_its_bounds_after_a_restart(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = place.data / "own.txt"
    with doors(place.kept, place.data) as opened:
        opened.user.execute(MAPPING.format("mine", path))
        opened.user.execute("CREATE VIEW seen AS " + READ.format(path))
        assert opened.owner.execute("SELECT * FROM mine").fetchall() == [("open",)]
    for roots in ((place.data,), (other,), ()):
        with doors(place.kept, *roots) as opened:
            for caller in (opened.user, opened.owner, opened.served):
                for statement in ("SELECT * FROM mine", "SELECT * FROM seen"):
                    if roots == (place.data,):
                        assert caller.execute(statement).fetchall() == [("open",)]
                    else:
                        with pytest.raises(runnel.Error, match="outside of what may be reached"):
                            caller.execute(statement).fetchall()
    with (
        runnel.connect(place.kept) as alone,
        pytest.raises(runnel.Error, match="outside of what may be reached"),
    ):
        alone.execute("SELECT * FROM mine").fetchall()
    with runnel.connect(place.kept, allowed_paths=[place.data]) as alone:
        assert alone.execute("SELECT * FROM mine").fetchall() == [("open",)]


def test_a_users_job_keeps_its_bounds_after_a_restart(place: Place, tmp_path: Path) -> None:
    with doors(place.kept, place.data) as opened:
        opened.user.execute(MAP)
        opened.user.execute(
            "CREATE JOB j AS INSERT INTO m SELECT 1, COUNT(*) FROM TABLE(LINES_FILE('{}'))".format(
                place.data / "own.txt"
            )
        )
        assert eventually(lambda: opened.user.execute("SELECT this FROM m").fetchall() == [(1,)])
        follow = (
            f"OPTIONS ('format' = 'lines', 'path' = '{place.data}', 'glob' = '*.txt', "
            "'follow' = 'true')"
        )
        opened.user.execute(f"CREATE MAPPING lines (line VARCHAR) TYPE File {follow}")
        opened.user.execute(
            "CREATE JOB k OPTIONS ('snapshotIntervalMillis' = '20') AS SINK INTO m SELECT 2, 2 "
            "FROM lines"
        )
        assert eventually(lambda: len(opened.user.execute("SELECT this FROM m").fetchall()) == 2)
    with doors(place.kept) as opened:
        job = opened.served.job("k")
        assert eventually(lambda: job.status is runnel.JobStatus.SUSPENDED), (
            "it is retried, though the bounds stay"
        )
        assert "outside of what may be reached" in str(
            opened.user.execute("SHOW JOBS FULL").fetchall()
        )
        with pytest.raises(runnel.OperationalError) as caught:
            opened.user.execute("ALTER JOB k RESUME")
        assert caught.value.code is runnel.ErrorCode.NOT_ALLOWED
    with doors(place.kept, place.data) as opened:
        opened.user.execute("ALTER JOB k RESUME")
        assert opened.served.job("k").status is runnel.JobStatus.RUNNING


def test_bounds_of_an_application(place: Place) -> None:
    with runnel.connect(allowed_paths=[place.data]) as bounded:
        assert bounded.execute(READ.format(place.data / "own.txt")).fetchall() == [("open",)]
        refused(bounded, READ.format(place.outside / "secret.txt"))
        refused(bounded, MAPPING.format("x", place.outside / "secret.txt"))
        refused(bounded, "CREATE MAPPING x TYPE Spark OPTIONS ('query' = 'SELECT 1')")
        refused(bounded, "CREATE DATA CONNECTION c TYPE DuckDB")
        refused(bounded, f"SET temp_directory = '{place.outside}'")
        bounded.execute(f"SET temp_directory = '{place.data}'")
        bounded.execute("SET time_zone = 'Europe/Vienna'")
    with pytest.raises(runnel.InterfaceError, match="does not exist"):
        runnel.connect(allowed_paths=[place.data / "nowhere"])
    with pytest.raises(runnel.InterfaceError, match="not one text"):
        runnel.connect(allowed_paths=str(place.data))
    with pytest.raises(runnel.InterfaceError, match="always out of reach"):
        runnel.connect(place.kept, allowed_paths=[place.kept / "token"])
    with runnel.connect(place.kept, allowed_paths=["/"]) as bounded:
        refused(bounded, READ.format(place.kept / "token"))
        refused(bounded, READ.format("/proc/self/environ"))


def test_a_users_numbers_are_not_the_owners(opened: Doors) -> None:
    opened.owner.execute(MAP)
    database = opened.served._database
    user = Caller(False, database.bounds)

    def put(caller: Caller, number: int, statement: str = "SINK") -> int:
        key = f"{number}{int(caller.is_owner)}"
        database.change(
            put=View("rows", f"SELECT {key} AS a, 1 AS b", ("__key", "this"), temporary=True)
        )
        write = NumberedWrite(
            writer="w",
            number=number,
            statement=statement,
            table="m",
            columns=("__key", "this"),
            rows=("rows",),
        )
        session = Session(database, caller, database.owner_settings)
        return write_once(SessionExecutor(session), write, lambda _: None)

    assert put(user, 9) == 1
    assert put(OWNER, 5) == 1
    assert put(user, 5) == 0
    with pytest.raises(runnel.ProgrammingError, match="an INSERT or SINK"):
        put(user, 10, "DELETE FROM m; SINK")
