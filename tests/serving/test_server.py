"""Who may talk to a server, and what it makes of nonsense."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight
import pytest

import runnel
import runnel.serving.server as server_module
from runnel.serving.messages import HEADER, PROTOCOL, packed, unpacked
from runnel.serving.server import Address, Server, ServerLimits

TOKEN = "a token of the tests"
OPTIONS = flight.FlightCallOptions(headers=[(HEADER, f"Bearer {TOKEN}".encode())])


@pytest.fixture
def server(connection: runnel.Connection) -> Iterator[Server]:
    """A server in front of `connection`."""
    made = Server(connection, TOKEN)
    yield made
    made.stop()


@pytest.mark.parametrize("headers", [[], [(HEADER, b"Bearer wrong")], [(HEADER, b"")]])
def test_no_call_passes_without_the_token(
    server: Server, headers: list[tuple[bytes, bytes]]
) -> None:
    client = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")
    options = flight.FlightCallOptions(headers=headers)
    with pytest.raises(flight.FlightUnauthenticatedError):
        list(client.do_action(flight.Action("hello", packed({})), options))
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.do_get(flight.Ticket(b"x"), options).read_all()
    client.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: list(client.list_flights(b"", OPTIONS)),
        lambda client: client.get_flight_info(flight.FlightDescriptor.for_path("x"), OPTIONS),
        lambda client: list(client.list_actions(OPTIONS)),
        lambda client: client.do_exchange(flight.FlightDescriptor.for_path("x"), OPTIONS)[
            1
        ].read_all(),
    ],
)
def test_calls_that_are_not_served(
    server: Server, call: Callable[[flight.FlightClient], object]
) -> None:
    with (
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
        pytest.raises(flight.FlightServerError) as caught,
    ):
        call(client)
    assert "the server doesn't understand the client" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_wrong_token_is_told(server: Server) -> None:
    with pytest.raises(runnel.OperationalError, match="refuses the token"):
        runnel.connect(server.url, token="another token of the tests")


def test_without_a_token_nothing_is_tried(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNNEL_TOKEN", raising=False)
    with pytest.raises(runnel.InterfaceError, match="needs its token"):
        runnel.connect(server.url)
    with pytest.raises(runnel.InterfaceError, match="printable ASCII"):
        runnel.connect(server.url, token="ä\n")
    monkeypatch.setenv("RUNNEL_TOKEN", TOKEN)
    with runnel.connect(server.url) as made:
        assert made.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("execute", b""),
        ("execute", b"\xff\xff\xff\xff"),
        ("execute", b"\0\0\0\2[]"),
        ("execute", b"\0\0\0\2{}"),
        ("execute", packed({"statement": "a", "sql": 1, "types": [], "rows": 1})),
        (
            "execute",
            packed({"statement": "a", "sql": "SELECT ?", "types": [{"kind": "NOPE"}], "rows": 1}),
        ),
        (
            "execute",
            packed(
                {"statement": "a", "sql": "SELECT ?", "types": [{"kind": "BIGINT"}], "rows": 1},
                b"not Arrow",
            ),
        ),
        ("cancel", packed({"statement": 5})),
        ("nonsense", packed({})),
    ],
)
def test_nonsense_is_an_error_and_no_harm(server: Server, kind: str, body: bytes) -> None:
    client = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")
    (answer,) = client.do_action(flight.Action(kind, body), OPTIONS)
    head, _ = unpacked(answer.body.to_pybytes())
    assert head["error"]["message"] == "the server doesn't understand the client"
    (answer,) = client.do_action(flight.Action("hello", packed({})), OPTIONS)
    assert unpacked(answer.body.to_pybytes())[0] == {"protocol": PROTOCOL}
    client.close()


def test_a_client_that_goes_while_its_arguments_are_read_is_noticed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arguments(*given: object) -> list[tuple[object, ...]]:
        for call in list(server._calls._open):
            call.on_gone()
        return [()]

    monkeypatch.setattr(server_module, "arguments_of", arguments)
    long = (
        "EXPLAIN ANALYZE SELECT COUNT(*) FROM TABLE(GENERATE_SERIES(1, 1000000000000)) AS g(v) "
        "WHERE v % 7 = 9"
    )
    ask = packed({"statement": "one", "sql": long, "types": [], "rows": 1, "timeout": 5})
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        (answer,) = client.do_action(flight.Action("execute", ask), OPTIONS)
    error = unpacked(answer.body.to_pybytes())[0]["error"]
    assert error["code"] == runnel.ErrorCode.CANCELLED, "the statement ran on"
    assert not len(server._statements)


def test_rows_are_read_once(server: Server, connection: runnel.Connection) -> None:
    client = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")
    ask = packed({"statement": "one", "sql": "SELECT v AS a FROM s", "types": [], "rows": 1})
    writer = connection.register_stream("s", {"v": "BIGINT"})
    list(client.do_action(flight.Action("execute", ask), OPTIONS))
    writer.write([(1,)])
    writer.close()
    assert client.do_get(flight.Ticket(b"one"), OPTIONS).read_all().to_pydict() == {"a": [1]}
    with pytest.raises(flight.FlightServerError, match="gone"):
        client.do_get(flight.Ticket(b"one"), OPTIONS).read_all()
    client.close()


def test_beyond_loopback_only_with_a_certificate(connection: runnel.Connection) -> None:
    with pytest.raises(runnel.ProgrammingError, match="needs a certificate"):
        Server(connection, TOKEN, Address("0.0.0.0"))
    with pytest.raises(runnel.ProgrammingError, match="at least 16"):
        Server(connection, "short")


def test_a_port_that_is_taken(server: Server, connection: runnel.Connection) -> None:
    with pytest.raises(runnel.OperationalError, match=f"can't listen on 127.0.0.1:{server.port}"):
        Server(connection, TOKEN, Address(port=server.port))


@pytest.mark.parametrize(
    "url",
    [
        "runnel://",
        "runnel://host",
        "runnel://host:99999",
        "runnel://h:1/path",
        "runnel://h:1?password=hunter2",
        "runnel://h:1#hunter2",
        "runnel://[bad:1",
        "http://h:1",
        "s3://a/b",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(runnel.InterfaceError, match="is no address of a server") as caught:
        runnel.connect(url, token=TOKEN)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "user", ["user:hunter2@", "hunter2@", "user:hunt/er2@", "user:hunter2@[", ":hunter2@"]
)
def test_an_address_with_a_password_is_refused_and_not_shown(user: str) -> None:
    for scheme in ("runnel", "runnel+tls", "http"):
        with pytest.raises(runnel.InterfaceError, match="has no user and no password") as caught:
            runnel.connect(f"{scheme}://{user}127.0.0.1:1", token=TOKEN)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "token",
    [
        " " * 20,
        "x" * 40,
        "abab" * 8,
        " a token with blanks ",
        "short",
        "a token\nof two lines",
        "ä" * 20,
    ],
)
def test_a_token_is_a_secret(connection: runnel.Connection, token: str) -> None:
    for tokens in ({"token": token}, {"token": TOKEN, "user_token": token}):
        with pytest.raises(runnel.ProgrammingError, match="the token of a server") as caught:
            Server(connection, **tokens)
        assert token not in str(caught.value)


def test_tokens_change_while_statements_run(server: Server, connection: runnel.Connection) -> None:
    writer = connection.register_stream("s", {"v": "BIGINT"})
    remote = runnel.connect(server.url, token=TOKEN)
    cursor = remote.execute("SELECT v FROM s")
    writer.write([(1,)])
    assert cursor.fetchone() == (1,)
    server.change_tokens("the second token of the owner", "the first token of users")
    writer.write([(2,)])
    assert cursor.fetchone() == (2,), "what runs goes on"
    with pytest.raises(runnel.OperationalError, match="refuses the token"):
        remote.execute("SELECT 1")
    for token in ("the second token of the owner", "the first token of users"):
        with runnel.connect(server.url, token=token) as made:
            assert made.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(runnel.ProgrammingError):
        server.change_tokens("short", None)
    with runnel.connect(server.url, token="the second token of the owner") as made:
        assert made.execute("SELECT 1").fetchone() == (1,)
    writer.close()
    remote.close()


def test_a_table_has_a_limit(connection: runnel.Connection) -> None:
    server = Server(connection, TOKEN, limits=ServerLimits(message=1 << 16, table=1 << 16))
    try:
        with runnel.connect(server.url, token=TOKEN) as remote:
            remote.register("small", pa.table({"a": list(range(1000))}))
            with pytest.raises(runnel.DataError, match="the table has more than the 65,536 bytes"):
                remote.register("large", pa.table({"a": list(range(100_000))}))
            with pytest.raises(
                runnel.DataError, match="the message has more than the 65,536 bytes"
            ):
                remote.execute("SELECT ?", ("x" * 100_000,))
            assert remote.execute("SELECT COUNT(*) FROM small").fetchone() == (1000,)
    finally:
        server.stop()


def test_nobody_listens(server: Server) -> None:
    url = server.url
    server.stop()
    with pytest.raises(runnel.OperationalError, match="can't be reached") as caught:
        runnel.connect(url, token=TOKEN)
    assert caught.value.code is runnel.ErrorCode.CONNECTION_PROBLEM


def test_settings_are_the_servers(server: Server) -> None:
    with pytest.raises(
        runnel.InterfaceError, match='"time_zone" is for connections of this process'
    ):
        runnel.connect(server.url, token=TOKEN, time_zone="UTC")


def test_a_root_certificate_that_cant_be_read(server: Server, tmp_path: Path) -> None:
    for given in (tmp_path / "none.pem", str(tmp_path), 5, "\0"):
        with pytest.raises(runnel.InterfaceError, match="can't be read"):
            runnel.connect(server.url, token=TOKEN, root_certificate=given)


def test_a_scheme_may_be_in_capitals(server: Server) -> None:
    with runnel.connect(server.url.replace("runnel", "RUNNEL"), token=TOKEN) as made:
        assert made.execute("SELECT 42").fetchone() == (42,)


def test_what_is_no_certificate_is_told(connection: runnel.Connection) -> None:
    with pytest.raises(runnel.OperationalError, match="can't listen") as caught:
        Server(connection, TOKEN, Address("127.0.0.1", 0, b"no PEM", b"no PEM"))
    assert caught.value.hint is not None and "certificate" in caught.value.hint


def test_a_certificate_hides_what_is_said(connection: runnel.Connection, tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    making = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    making += [
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    try:
        subprocess.run(making, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("needs the openssl command, to make a certificate")
    server = Server(
        connection, TOKEN, Address("localhost", 0, certificate.read_bytes(), key.read_bytes())
    )
    try:
        assert server.url.startswith("runnel+tls://localhost:")
        with runnel.connect(server.url, token=TOKEN, root_certificate=certificate) as made:
            assert made.execute("SELECT 42").fetchone() == (42,)
        with pytest.raises(runnel.OperationalError, match="can't be reached"):
            runnel.connect(server.url, token=TOKEN)
    finally:
        server.stop()


def test_a_process_that_served_ends_without_a_word() -> None:
    """Flight never lets go of what checks tokens: were it to hold the database, DuckDB would tell
    of what leaked at the end."""
    program = f"""if True:
        import runnel
        from runnel.serving.server import Server
        with runnel.connect() as connection:
            connection.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
            Server(connection, {TOKEN!r}).stop()
    """
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stderr == ""
