"""The connections with clients that a server's port has, as the operating system shows them: Flight has no list of them.

Linux has such a list, in /proc; elsewhere nothing is known.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress

_DESCRIPTORS = "/proc/self/fd"


def client_port(peer: str) -> str:
    """The port of a client's end, from gRPC's name for that end, e.g. `ipv4:127.0.0.1:51422`."""
    return peer.rpartition(":")[2]


def connected_ports(port: int) -> set[str] | None:
    """The ports of the clients' ends of all connections with the server at `port`. None: the system has no such list."""
    try:
        return {number for number, _ in _connections(port)}
    except OSError:
        return None


def cut_connection(peer: str, port: int) -> bool:
    """Shuts the connection down that the server at `port` has with a client, by gRPC's name for its end. False where it isn't
    found, or the system has no list of open sockets."""
    wanted = client_port(peer)
    with suppress(OSError):
        for number, found in _connections(port):
            if number == wanted:
                found.shutdown(socket.SHUT_RDWR)
                return True
    return False


def _connections(port: int) -> Iterator[tuple[str, socket.socket]]:
    """Each open connection of the port: the port of the client's end, and a second handle of the socket, which is open until
    the next one is asked for."""
    for descriptor in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - no objects
        with suppress(OSError, ValueError):
            if not stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(descriptor))) as found:
                if found.getsockname()[1:2] == (port,):
                    yield str(found.getpeername()[1]), found
