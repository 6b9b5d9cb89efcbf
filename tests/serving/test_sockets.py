"""Connections of a server's port, by the clients' ends."""

from __future__ import annotations

import socket
import sys

import pytest

from runnel.serving.sockets import client_end, connected_clients, cut_connection


@pytest.mark.parametrize(
    ("peer", "end"),
    [
        ("ipv4:127.0.0.1:51422", ("127.0.0.1", 51422)),
        ("ipv6:%5B::1%5D:51422", ("::1", 51422)),
        ("ipv6:[::1]:51422", ("::1", 51422)),
        ("ipv6:%5B::ffff:192.0.2.1%5D:7", ("192.0.2.1", 7)),
        ("ipv6:%5Bfe80::1%25eth0%5D:7", ("fe80::1", 7)),
        ("unix:/tmp/a", None),
        ("", None),
    ],
)
def test_the_end_of_a_client_has_an_address_and_a_port(
    peer: str, end: tuple[str, int] | None
) -> None:
    assert client_end(peer) == end


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere nothing says which connections there are"
)
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_of_two_hosts_with_one_port_the_right_one_is_cut(family: socket.AddressFamily) -> None:
    is_both = family == socket.AF_INET6
    with socket.create_server(
        ("::" if is_both else "0.0.0.0", 0), family=family, dualstack_ipv6=is_both
    ) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)) as one:
            shared = one.getsockname()[1]
            with socket.create_connection(
                ("127.0.0.1", port), source_address=("127.0.0.3", shared)
            ) as two:
                ends = [listening.accept()[0] for _ in range(2)]
                assert connected_clients(port) == {("127.0.0.2", shared), ("127.0.0.3", shared)}
                assert not cut_connection(f"ipv4:127.0.0.4:{shared}", port)
                assert cut_connection(f"ipv4:127.0.0.3:{shared}", port)
                assert two.recv(1) == b"", "it isn't cut"
                one.sendall(b"x")
                assert ends[0].recv(1) == b"x", "the connection of another host is cut"
                for end in ends:
                    end.close()
