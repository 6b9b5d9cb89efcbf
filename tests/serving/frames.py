"""Messages as no client of ours sends them: sound ones, with a part of them changed at random.

    python -m tests.serving.frames [COUNT] [SEED]

gives COUNT of them (100,000 if not given) to a server's handlers and prints what the answers were;
a message that is answered by an internal error, or not at all, ends it with the message and the
seed.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from typing import Any

import pyarrow as pa

import runnel
from runnel.serving.messages import arguments_message, error_of, unpacked
from runnel.serving.server import Server, ServerLimits
from runnel.serving.tokens import KnownCall
from runnel.sqltypes import BIGINT, VARCHAR

TOKEN = "a token of the tests"
MAP = (
    "CREATE MAPPING m (__key BIGINT, this VARCHAR) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'varchar')"
)

STRANGE: list[Any] = [
    None,
    True,
    -1,
    0,
    1 << 63,
    10**400,
    1.5,
    -0.0,
    "",
    "x",
    "\ud800",
    "\0",
    "\u2603" * 50,
    [],
    [[]],
    {},
    {"kind": "ARRAY"},
    {"kind": "DECIMAL", "precision": "x", "scale": -5},
    {"kind": "DECIMAL", "precision": 10**9, "scale": 3},
    {"kind": "ROW", "fields": [["a"]]},
    {"kind": "MAP", "key": {"kind": "BIGINT"}},
    ["INSERT"],
]
LITERALS = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e400",
    b"-1e400",
    b"[" * 5000,
    b"1" * 5000,
    b'"\xff"',
    b'"\\ud800"',
    b"{",
]


def sound() -> list[tuple[str, dict[str, Any], bytes]]:
    """Messages that a server understands: kind, head and body."""
    head, body = arguments_message([(1, "a"), (2, None)], [BIGINT, VARCHAR])
    one, one_body = arguments_message([(1, "a")], [BIGINT, VARCHAR])
    write = {
        "writer": "w",
        "number": 3,
        "kind": "SINK",
        "table": "m",
        "columns": ["__key", "this"],
        "rows": ["t"],
    }
    return [
        ("hello", {}, b""),
        ("execute", {"sql": "SELECT 1 AS a", "types": [], "rows": 1, "timeout": 5}, b""),
        ("execute", {"sql": "SELECT ? + 1, ? || 'x'", "timeout": None} | one, one_body),
        (
            "execute",
            {"sql": "SELECT this FROM m WHERE __key = ? OR this = ?", "timeout": 2.5} | one,
            one_body,
        ),
        ("executemany", {"sql": "SINK INTO m VALUES (?, ?)", "timeout": 5} | head, body),
        ("write", write, b""),
        ("cancel", {}, b""),
        ("end", {}, b""),
        ("unregister", {"name": "nope"}, b""),
        ("unregister all", {"prefix": "nope"}, b""),
        ("put", {"register": "t", "rows": 2}, _table()),
    ]


def _table() -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(
        {
            "__key": [1, 2],
            "this": ["a", "b"],
            "d": pa.array(["x", "x"]).dictionary_encode(),
            "l": [[1], None],
        }
    )
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def mutated(random: random.Random) -> tuple[str, bytes, bytes]:
    """One message: its kind, its frame, and, of a table, the stream of its rows."""
    kind, head, body = random.choice(sound())
    head = {"statement": "s"} | head
    for _ in range(random.randrange(3)):
        name = random.choice(list(head))
        if random.random() < 0.2:
            del head[name]
        elif isinstance(head[name], list) and head[name] and random.random() < 0.5:
            head[name] = [*head[name], random.choice(STRANGE)]
        else:
            head[name] = random.choice(STRANGE)
        if not head:
            break
    text = json.dumps(head).encode()
    if random.random() < 0.2:
        text = text.replace(
            random.choice([b"1", b"2", b"null", b'"s"', b"{"]), random.choice(LITERALS), 1
        )
    if random.random() < 0.1:
        kind = random.choice(["", "nope", "execute", "\ud800"])
    if random.random() < 0.4:
        body = damaged(random, body)
    frame = len(text).to_bytes(4, "big") + text + (b"" if kind == "put" else body)
    return kind, damaged(random, frame) if random.random() < 0.2 else frame, body


def damaged(random: random.Random, data: bytes) -> bytes:
    """The bytes with some changed, cut off, or put in twice."""
    changed = bytearray(data)
    match random.randrange(4):
        case 0 if changed:
            for _ in range(random.randrange(1, 4)):
                changed[random.randrange(len(changed))] = random.randrange(256)
        case 1:
            del changed[random.randrange(len(changed) + 1) :]
        case 2 if changed:
            start = random.randrange(len(changed))
            changed[start:start] = changed[start : start + random.randrange(64)]
        case _ if len(changed) >= 4:
            start = random.randrange(len(changed) - 3)
            changed[start : start + 4] = random.choice(
                [b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0"]
            )
    return bytes(changed)


class Call:
    """Stands for Flight's handle of a call."""

    def __init__(self, server: Server) -> None:
        self._known = KnownCall(server._connection._session.caller)

    def is_cancelled(self) -> bool:
        return False

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def get_middleware(self, name: str) -> KnownCall:
        return self._known


class Reader:
    """Stands for Flight's reader of a table, whose rows come in one message."""

    def __init__(self, data: bytes) -> None:
        self.schema = pa.schema([])
        self._chunks = iter([pa.py_buffer(data)])

    def read_chunk(self) -> Any:
        return type("Chunk", (), {"data": None, "app_metadata": next(self._chunks)})


class Handlers:
    """A server's handlers, called without a network."""

    def __init__(self, connection: runnel.Connection) -> None:
        connection.execute(MAP)
        connection.register("t", pa.table({"__key": [1, 2], "this": ["a", "b"]}))
        self.server = Server(connection, TOKEN, limits=ServerLimits(message=1 << 20, table=1 << 20))
        self._call = Call(self.server)

    def answer(self, kind: str, frame: bytes, body: bytes) -> runnel.Error | None:
        """The error that a message is answered with."""
        if kind == "put":
            return self._put(frame, body)
        answer, _ = unpacked(self.server.answer(kind, pa.py_buffer(frame), self._call))
        for name in list(self.server._statements._open):
            self.server._statements.end(name)
        return error_of(answer["error"]) if "error" in answer else None

    def _put(self, frame: bytes, body: bytes) -> runnel.Error | None:
        try:
            self.server.register(frame, Reader(body), self._call)
        except runnel.Error as error:
            return error
        return None


def tried(handlers: Handlers, seed: int) -> str:
    """The name of the class of the error that the message of a seed is answered with, "" for none;
    AssertionError where it is one of ours, or where the answer can't be read."""
    kind, frame, body = mutated(random.Random(seed))
    try:
        error = handlers.answer(kind, frame, body)
    except Exception as raised:
        raise AssertionError(f"seed {seed}: {kind} {frame!r} raises {raised!r}") from raised
    assert not isinstance(error, runnel.InternalError), f"seed {seed}: {kind} {frame!r}: {error}"
    return "" if error is None else type(error).__name__


def main(arguments: list[str]) -> None:
    count, seed = (*map(int, arguments), *(100_000, 0)[len(arguments) :])
    with runnel.connect() as connection:
        handlers = Handlers(connection)
        try:
            print(
                f"{count} messages from seed {seed}:",
                Counter(tried(handlers, number) for number in range(seed, seed + count)),
            )
        finally:
            handlers.server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
