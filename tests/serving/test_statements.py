"""Statements that clients have begun: when their rows are given up, and that none begins when the
server ends."""

from __future__ import annotations

import pytest

import runnel
from runnel.results.rows import Result
from runnel.serving import statements
from runnel.serving.sockets import End
from runnel.serving.statements import LOST, UNREAD, OpenStatements

PEER = "ipv4:127.0.0.1:4711"


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(statements, "monotonic", made)
    return made


def some_rows() -> Result:
    return Result((), [])


def test_rows_are_given_up_so_long_after_they_were_there(clock: Clock) -> None:
    opened = OpenStatements(lambda: None)
    statement = opened.begin("slow")
    clock.now += 10 * UNREAD
    opened.begin("other")
    rows = some_rows()
    statement.give(rows, PEER)
    clock.now += UNREAD
    opened.begin("another")
    assert opened.take_rows("slow") is rows

    opened.begin("unread").give(some_rows(), PEER)
    clock.now += UNREAD + 1
    opened.begin("last")
    with pytest.raises(runnel.OperationalError, match="the rows of the statement are gone"):
        opened.take_rows("unread")


def test_none_begins_when_the_server_ends() -> None:
    opened = OpenStatements(lambda: None)
    opened.begin("one")
    opened.cancel_all()
    with pytest.raises(runnel.OperationalError, match="the server is ending") as caught:
        opened.begin("two")
    assert caught.value.code is runnel.ErrorCode.CONNECTION_PROBLEM
    assert len(opened) == 1


def test_rows_are_given_up_sooner_where_the_connection_is_gone(clock: Clock) -> None:
    this, other = ("127.0.0.1", 4711), ("127.0.0.2", 4711)
    connected: list[set[End] | None] = [{this, other}]
    opened = OpenStatements(lambda: connected[0])
    opened.begin("unread").give(some_rows(), PEER)
    opened.begin("at work")
    for connected[0] in ({this, other}, None):
        clock.now += LOST + 1
        assert opened.look()
        assert len(opened) == 2, "its client may live"
    connected[0] = {other}
    assert opened.look()
    assert len(opened) == 1
    opened.begin("new").give(some_rows(), PEER)
    opened.look()
    assert len(opened) == 2, "it may come over another connection"
