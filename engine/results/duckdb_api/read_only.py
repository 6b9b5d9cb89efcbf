"""A connection that only reads a DuckDB file. Loaded on first use."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from runnel.errors import Error, NotSupportedError, as_written

_OWN_NAMES = frozenset(("main", "memory", "pg_catalog", "public", "runnel", "system", "temp"))
"""The names of schemas and catalogs that a file cannot have."""


def attach_read_only(connection: Any, path: str | Path | None) -> None:
    """Attaches a DuckDB file to a connection, and makes it the current database; closes the
    connection after an error."""
    try:
        if path is None or Path(path).is_dir():
            raise NotSupportedError(
                "connect(read_only=True) is for a DuckDB file",
                hint="other processes read a directory by way of runnel serve",
            )
        stem = Path(path).stem
        name = as_written(f"{stem}_" if stem.lower() in _OWN_NAMES else stem)
        text = str(path).replace("'", "''")
        connection.execute(f"ATTACH '{text}' AS {name} (READ_ONLY)")
        connection.execute(f"USE {name}")
    except BaseException as error:
        with suppress(Exception):
            connection.close()
        if isinstance(error, Error):
            error.position = None  # the statement is not the user's
        raise
