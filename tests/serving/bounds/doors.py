"""A directory that is served within bounds, in this process: a connection with the owner's token,
and one with the users'."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import runnel
from runnel.access import access_of, modules_in
from runnel.connection import Connection, prepare_job
from runnel.database import Database
from runnel.serving.server import Server

OWNERS = "the owner's token of the tests"
USERS = "the users' token of the tests"


class Doors(NamedTuple):
    """Connections: the owner's and a user's, both to the server, and the one that is served."""

    owner: runnel.Connection
    user: runnel.Connection
    served: runnel.Connection


@contextmanager
def doors(directory: Path, *files: str | Path, modules: Path | None = None) -> Iterator[Doors]:
    """Serves a directory as `runnel serve DIR --files … --modules …` does."""
    bounds = access_of(files, [directory])
    if modules is not None:
        bounds = replace(bounds, modules=modules_in(modules))
    with Connection(
        Database(directory, {}, False, bounds=bounds, prepare_job=prepare_job)
    ) as served:
        server = Server(served, OWNERS, user_token=USERS)
        try:
            with (
                runnel.connect(server.url, token=OWNERS) as owner,
                runnel.connect(server.url, token=USERS) as user,
            ):
                yield Doors(owner, user, served)
        finally:
            server.stop()
