"""The connections of clients to a server's port, as the operating system lists them: Flight has no
such list.

Linux has one, in /proc; on other systems nothing is known.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import unquote

_DESCRIPTORS = "/proc/self/fd"


End = tuple[str, int]
"""The client's end of a connection: its IP address and port. Two hosts may have the same port."""


def client_end(peer: str) -> End | None:
    """The client's end, from gRPC's name for it, e.g. `ipv4:127.0.0.1:51422` or
    `ipv6:%5B::1%5D:51422`; None if the name has no address."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        return _end(host.removeprefix("[").removesuffix("]"), int(port))
    except ValueError:
        return None


def connected_clients(port: int) -> set[End] | None:
    """The clients' ends of all connections to the server at `port`. None: the system has no such
    list."""
    try:
        return {end for end, _ in _connections(port)}
    except OSError:
        return None


def cut_connection(peer: str, port: int) -> bool:
    """Shuts down the connection of the server at `port` to a client, by gRPC's name for its end.
    False if it is not found, or if the system has no list of open sockets."""
    client = client_end(peer)
    with suppress(OSError):
        for end, found in _connections(port):
            if end == client:
                found.shutdown(socket.SHUT_RDWR)
                return True
    return False


def _connections(port: int) -> Iterator[tuple[End, socket.socket]]:
    """Each open connection of the port: the client's end, and a second handle of the socket, which
    is open until the next one is requested."""
    for descriptor in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - no objects
        with suppress(OSError, ValueError):
            if not stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(descriptor))) as found:
                if found.getsockname()[1:2] == (port,):
                    yield _end(*found.getpeername()[:2]), found


def _end(host: str, port: int) -> End:
    """A normalized end: a socket for both families shows an IPv4 address as ::ffff:192.0.2.1, and a
    link-local address has a zone (fe80::1%eth0)."""
    address = ip_address(host.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address), port
