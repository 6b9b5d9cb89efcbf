"""Files named by URLs of http, served on loopback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from runnel import Cursor, OperationalError


class Quiet(SimpleHTTPRequestHandler):
    """A file server that logs nothing."""

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a folder with files."""
    (tmp_path / "f.csv").write_text("id,name\n1,Ann\n2,Bo\n")
    (tmp_path / "f.json").write_text('{"id": 3}\n{"id": 4}\n')
    pq.write_table(pa.table({"id": [5, 6, 7]}), tmp_path / "f.parquet")
    handler = partial(Quiet, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_files_of_a_web_server(cursor: Cursor, url: str) -> None:
    assert cursor.execute(f"FROM '{url}/f.csv'").fetchall() == [(1, "Ann"), (2, "Bo")]
    assert cursor.execute(f"SELECT sum(id) FROM '{url}/f.json'").fetchall() == [(7,)]
    assert cursor.execute(f"SELECT max(id) FROM read_parquet('{url}/f.parquet')").fetchall() == [
        (7,)
    ]
    assert cursor.execute(f"DESCRIBE '{url}/f.csv'").fetchall()[0][:2] == ("id", "BIGINT")


def test_a_file_that_the_server_lacks(cursor: Cursor, url: str) -> None:
    with pytest.raises(OperationalError, match=r"none\.csv") as caught:
        cursor.execute(f"FROM '{url}/none.csv'").fetchall()
    assert caught.value.code is runnel.ErrorCode.OBJECT_NOT_FOUND


def test_a_server_that_is_not_there(cursor: Cursor) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(OperationalError, match=f"127.0.0.1:{port}"):
        cursor.execute(f"FROM 'http://127.0.0.1:{port}/f.csv'").fetchall()
