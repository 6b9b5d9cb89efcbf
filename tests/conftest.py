"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import runnel


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    """A connection in memory, closed afterwards."""
    with runnel.connect() as made:
        yield made


@pytest.fixture
def cursor(connection: runnel.Connection) -> runnel.Cursor:
    """A cursor of `connection`."""
    return connection.cursor()
