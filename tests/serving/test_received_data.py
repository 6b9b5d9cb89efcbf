"""Small messages stay small: what would take much memory is refused before it does."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import runnel
from runnel.serving.messages import packed
from runnel.serving.received_data import value_count
from tests.serving.frames import Handlers

MANY = 1 << 20
LIST_OF_NULLS = pa.ListArray.from_arrays(pa.array([0, MANY * 4], pa.int32()), pa.nulls(MANY * 4))
RUN = pa.RunEndEncodedArray.from_arrays(pa.array([(1 << 31) - 1], pa.int32()), pa.array([7]))


@pytest.fixture
def handlers(connection: runnel.Connection) -> Iterator[Handlers]:
    """A server whose messages and tables have a limit of 1 MB."""
    made = Handlers(connection)
    yield made
    made.server.stop()


def stream(array: pa.Array, compression: str | None = None) -> bytes:
    batch = pa.record_batch([array], names=["0"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def asked(handlers: Handlers, array: pa.Array, kind: object, body: bytes) -> runnel.Error | None:
    head = {
        "statement": "s",
        "sql": "SINK INTO m VALUES (?, 'a')",
        "types": [kind],
        "rows": len(array),
    }
    return handlers.answer("executemany", packed(head, body), b"")


@pytest.mark.parametrize(
    ("array", "count"),
    [
        (pa.array([1, 2, 3]), 3),
        (pa.array([[1, 2], None, [3]]), 6),
        (pa.array([{"a": 1}, {"a": None}]), 4),
        (pa.array(["x", "y", "x"]).dictionary_encode(), 5),
        (pa.nulls(5), 5),
        (pa.array([], pa.int64()), 0),
        (RUN, (1 << 31) - 1 + 2),
    ],
    ids=["longs", "lists", "rows", "dictionary", "nulls", "none", "run"],
)
def test_values_are_counted_in_the_metadata(array: pa.Array, count: int) -> None:
    assert value_count(stream(array)) == count


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize(
    "array",
    [pa.array([0] * MANY), pa.array(["x" * MANY]).dictionary_encode()],
    ids=["long", "dictionary"],
)
def test_compressed_data_is_refused_before_it_is_read(
    handlers: Handlers, array: pa.Array, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = stream(array, compression)
    table = packed({"register": "u", "rows": len(array)})

    def read(data: object) -> object:
        raise AssertionError("it is decompressed")

    monkeypatch.setattr(pa.ipc, "open_stream", read)
    for error in (
        asked(handlers, array, {"kind": "BIGINT"}, body),
        handlers.answer("put", table, body),
    ):
        assert isinstance(error, runnel.ProgrammingError)
        assert error.detail is not None and "the rows are compressed" in error.detail


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.nulls(MANY), {"kind": "NULL"}),
        (pa.array([True] * (MANY // 4)), {"kind": "BOOLEAN"}),
        (LIST_OF_NULLS, {"kind": "ARRAY", "element": {"kind": "NULL"}}),
        (RUN, {"kind": "BIGINT"}),
    ],
    ids=["nulls", "bits", "list", "run"],
)
def test_arguments_without_bytes_of_their_own_have_a_limit(
    handlers: Handlers, array: pa.Array, kind: object
) -> None:
    body = stream(array)
    assert len(body) < MANY
    error = asked(handlers, array, kind, body)
    assert isinstance(error, runnel.DataError)
    assert "1,048,576 bytes" in error.message


@pytest.mark.parametrize(
    "array", [pa.nulls(MANY + 1), LIST_OF_NULLS, RUN], ids=["nulls", "list", "run"]
)
def test_tables_without_bytes_of_their_own_have_a_limit(
    handlers: Handlers, array: pa.Array
) -> None:
    error = handlers.answer("put", packed({"register": "u", "rows": len(array)}), stream(array))
    assert isinstance(error, runnel.DataError)
    assert error.hint is not None and "--table-limit" in error.hint


def test_rows_that_flight_would_read_are_refused(handlers: Handlers) -> None:
    class Reader:
        schema = pa.schema({"a": pa.int64()})

        def read_chunk(self) -> object:
            raise AssertionError("they are read")

    with pytest.raises(runnel.ProgrammingError, match="doesn't understand the client"):
        handlers.server.register(packed({"register": "u", "rows": 1}), Reader(), handlers._call)  # type: ignore[arg-type]


def test_tables_of_all_kinds_arrive(connection: runnel.Connection, handlers: Handlers) -> None:
    names = pa.chunked_array(
        [pa.array(["x", "y"]).dictionary_encode(), pa.array(["z", None]).dictionary_encode()]
    )
    table = pa.table({"a": [1, 2, 3, None], "b": names, "c": [[1], [], None, [2, 3]]})
    with runnel.connect(handlers.server.url, token="a token of the tests") as remote:
        remote.register("u", table)
        rows = remote.execute("SELECT a, b, c FROM u").fetchall()
        assert sorted(rows, key=str) == [
            (1, "x", [1]),
            (2, "y", []),
            (3, "z", None),
            (None, None, [2, 3]),
        ]
        remote.register("none", table.schema.empty_table())
        assert remote.execute("SELECT COUNT(*), MAX(a) FROM none").fetchall() == [(0, None)]
