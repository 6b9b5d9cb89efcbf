"""Messages that no client of ours sends are errors of the client, never of the server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import runnel
from runnel.serving.messages import arguments_message, packed
from runnel.sqltypes import BIGINT
from tests.serving.frames import Handlers, tried

COUNT = 2000


@pytest.fixture
def handlers(connection: runnel.Connection) -> Iterator[Handlers]:
    made = Handlers(connection)
    yield made
    made.server.stop()


def test_changed_messages_are_errors_of_the_client(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [tried(handlers, seed) for seed in range(COUNT)]
    assert {"", "ProgrammingError"} <= set(answers)
    assert "Traceback" not in caplog.text


_HEAD, _BODY = arguments_message([(1,)], [BIGINT])
_ASK = {"statement": "s", "sql": "SELECT ?"}


@pytest.mark.parametrize(
    "head",
    [
        _HEAD | {"rows": -1},
        _HEAD | {"rows": 2},
        _HEAD | {"rows": True},
        _HEAD | {"rows": 1e300},
        _HEAD | {"types": [{"kind": "VARCHAR"}]},
        _HEAD | {"types": [{"kind": "BIGINT"}] * 2},
        _HEAD | {"types": [{"kind": "ARRAY"}]},
        _HEAD | {"types": [{"kind": "DECIMAL", "precision": 99, "scale": -4}]},
        _HEAD | {"types": 5},
        _HEAD | {"timeout": "soon"},
        _HEAD | {"timeout": -1},
        _HEAD | {"timeout": float("nan")},
        _HEAD | {"timeout": float("inf")},
        _HEAD | {"timeout": True},
        _HEAD | {"sql": "SELECT '\ud800'"},
        _HEAD | {"statement": None},
    ],
    ids=repr,
)
def test_what_a_message_says_is_checked(handlers: Handlers, head: dict[str, object]) -> None:
    error = handlers.answer("execute", packed(_ASK | head, _BODY), b"")
    assert isinstance(error, runnel.ProgrammingError)
    assert error.message == "the server doesn't understand the client"


@pytest.mark.parametrize(
    "more",
    [
        {"columns": 5},
        {"columns": [5]},
        {"rows": "t"},
        {"number": -1},
        {"number": True},
        {"kind": "DELETE FROM m; INSERT"},
    ],
    ids=repr,
)
def test_what_a_numbered_write_says_is_checked(handlers: Handlers, more: dict[str, object]) -> None:
    head = {
        "statement": "s",
        "writer": "w",
        "number": 1,
        "kind": "SINK",
        "table": "m",
        "columns": ["__key"],
        "rows": ["t"],
    }
    error = handlers.answer("write", packed(head | more), b"")
    assert isinstance(error, runnel.ProgrammingError)
    assert error.message == "the server doesn't understand the client"


@pytest.mark.parametrize(
    "head",
    [
        b'{"statement": "s", "sql": "SELECT \'\xed\xa0\x80\'", "types": [], "rows": 1}',
        '{"statement": "s", "sql": "SELECT 1", "types": [], "rows": 1}'.encode("utf-16"),
        '{"statement": "s", "sql": "SELECT 1", "types": [], "rows": 1}'.encode("utf-8-sig"),
    ],
    ids=repr,
)
def test_a_message_is_sound_utf_8(handlers: Handlers, head: bytes) -> None:
    error = handlers.answer("execute", len(head).to_bytes(4, "big") + head, b"")
    assert isinstance(error, runnel.ProgrammingError)
    assert error.message == "the server doesn't understand the client"


def test_a_message_has_a_limit(handlers: Handlers) -> None:
    error = handlers.answer("execute", packed(_ASK, bytes(1 << 20)), b"")
    assert isinstance(error, runnel.DataError)
    assert "1,048,576 bytes" in error.message
    assert error.hint is not None and "--message-limit" in error.hint
