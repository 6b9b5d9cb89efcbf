"""Statements that clients have begun: when their rows are given up, and that none begins when the server ends."""

from __future__ import annotations

import pytest

import runnel
from runnel.rows import Result
from runnel.serving import statements
from runnel.serving.statements import UNREAD, OpenStatements


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
    opened = OpenStatements()
    statement = opened.begin("slow")
    clock.now += 10 * UNREAD
    opened.begin("other")
    rows = some_rows()
    statement.give(rows)
    clock.now += UNREAD
    opened.begin("another")
    assert opened.take_rows("slow") is rows

    opened.begin("unread").give(some_rows())
    clock.now += UNREAD + 1
    opened.begin("last")
    with pytest.raises(runnel.OperationalError, match="the rows of the statement are gone"):
        opened.take_rows("unread")


def test_none_begins_when_the_server_ends() -> None:
    opened = OpenStatements()
    opened.begin("one")
    opened.cancel_all()
    with pytest.raises(runnel.OperationalError, match="the server is ending") as caught:
        opened.begin("two")
    assert caught.value.code is runnel.ErrorCode.CONNECTION_PROBLEM
    assert len(opened) == 1
