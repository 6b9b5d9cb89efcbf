"""The owner's token and that of users: what only the owner may do."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from runnel.access import access_of
from runnel.connection import Connection, prepare_job
from runnel.database import Database
from runnel.errors import ErrorCode
from runnel.serving.server import Server
from tests.serving.test_command import MAP, served

OWNERS = "the owner's token of the tests"
USERS = "the users' token of the tests"


@pytest.fixture
def server(connection: runnel.Connection) -> Iterator[Server]:
    """A server in front of `connection`, with both tokens."""
    made = Server(connection, OWNERS, user_token=USERS)
    yield made
    made.stop()


@pytest.fixture
def owner(server: Server) -> Iterator[runnel.Connection]:
    with runnel.connect(server.url, token=OWNERS) as made:
        yield made


@pytest.fixture
def user(server: Server) -> Iterator[runnel.Connection]:
    with runnel.connect(server.url, token=USERS) as made:
        yield made


@pytest.mark.parametrize(
    "statement", ["SET time_zone = 'Europe/Vienna'", "RESET ALL", "SET memory_limit = '1MB'"]
)
def test_settings_are_the_owners(
    owner: runnel.Connection, user: runnel.Connection, statement: str
) -> None:
    with pytest.raises(
        runnel.ProgrammingError, match="settings of a server are the owner's"
    ) as caught:
        user.execute(statement)
    assert caught.value.code is ErrorCode.NOT_ALLOWED
    owner.execute(statement)
    assert user.execute("SHOW time_zone").fetchone() is not None


def test_both_read_and_write(owner: runnel.Connection, user: runnel.Connection) -> None:
    owner.execute(MAP)
    user.cursor().executemany("INSERT INTO m VALUES (?, ?)", [(1, 2), (3, 4)])
    assert owner.execute("SELECT SUM(this) FROM m").fetchone() == (6,)
    assert user.execute("SELECT this FROM m WHERE __key = 3").fetchone() == (4,)


def test_the_tokens_differ(connection: runnel.Connection) -> None:
    with pytest.raises(runnel.ProgrammingError, match="are the same"):
        Server(connection, OWNERS, user_token=OWNERS)
    with pytest.raises(runnel.ProgrammingError, match="at least 16"):
        Server(connection, OWNERS, user_token="short")


def test_served_with_two_tokens(tmp_path: Path) -> None:
    with served(tmp_path / "kept") as (_, url):
        for name in ("token", "user-token"):
            assert stat.S_IMODE((tmp_path / "kept" / name).stat().st_mode) == 0o600
        with runnel.connect(url, token=(tmp_path / "kept/user-token").read_text()) as user:
            assert user.execute("SELECT 1").fetchone() == (1,)
            with pytest.raises(runnel.ProgrammingError, match="are the owner's"):
                user.execute("SET pushdown = off")
        with runnel.connect(url, token=(tmp_path / "kept/token").read_text()) as owner:
            owner.execute("SET pushdown = off")


def test_backups_are_the_owners(
    tmp_path: Path, user: runnel.Connection, owner: runnel.Connection
) -> None:
    statement = f"BACKUP TO '{tmp_path}/copy'"
    with pytest.raises(runnel.ProgrammingError, match="backups are the owner's") as caught:
        user.execute(statement)
    assert caught.value.code is ErrorCode.NOT_ALLOWED
    with pytest.raises(runnel.NotSupportedError, match="in memory"):
        owner.execute(statement)


def test_a_backup_is_not_written_where_users_read(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    database = Database(tmp_path / "db", {}, bounds=access_of([files]), prepare_job=prepare_job)
    with Connection(database) as connection:
        server = Server(connection, OWNERS, user_token=USERS)
        try:
            with runnel.connect(server.url, token=OWNERS) as owner:
                with pytest.raises(runnel.ProgrammingError, match="can't be written") as caught:
                    owner.execute(f"BACKUP TO '{files}/copy'")
                assert caught.value.code is ErrorCode.NOT_ALLOWED
                assert list(files.iterdir()) == []
                [row] = owner.execute(f"BACKUP TO '{tmp_path}/copy'").fetchall()
                assert row[0] == str(tmp_path / "copy")
        finally:
            server.stop()
