"""A statement that was committed says so, whatever happens to its job afterwards."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from runnel import Connection, Cursor, OperationalError
from runnel.connector import Token
from runnel.connectors.imap.sink import MapSink

INSERT = "INSERT INTO m SELECT v, v FROM TABLE(GENERATE_SERIES(1, 5))"


@pytest.fixture
def cursor(connection: Connection) -> Cursor:
    cursor = connection.cursor()
    return cursor.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )


def interrupted(cursor: Cursor, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    """Has the statement cancelled by another thread while its sink is about to commit, or has just
    done so."""
    commit, reached, go_on = MapSink.commit, Event(), Event()

    def held(sink: MapSink, token: Token) -> None:
        if not before:
            commit(sink, token)
        reached.set()
        assert go_on.wait(10)
        if before:
            raise OperationalError("the disk is gone")

    def cancel() -> None:
        assert reached.wait(10)
        cursor.cancel()
        go_on.set()

    monkeypatch.setattr(MapSink, "commit", held)
    Thread(target=cancel).start()


def test_a_cancellation_after_the_commit_comes_too_late(
    cursor: Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(cursor, monkeypatch, before=False)
    assert cursor.execute(INSERT).rowcount == 5
    assert cursor.execute("SELECT COUNT(*) FROM m").fetchone() == (5,)


def test_a_cancellation_before_the_commit_is_told(
    cursor: Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(cursor, monkeypatch, before=True)
    with pytest.raises(OperationalError, match="cancelled"):
        cursor.execute(INSERT)
    monkeypatch.undo()
    assert cursor.execute("SELECT COUNT(*) FROM m").fetchone() == (0,)
