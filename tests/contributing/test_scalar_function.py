"""The example of docs/contributing.md: a scalar function."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

import runnel
from runnel.expressions.function import over_first
from runnel.expressions.functions import FUNCTIONS, SQL_NAMES, FunctionRegistry
from runnel.expressions.signature import TEXT, named, signature
from runnel.sqltypes import VARCHAR

SWAPCASE = named(
    "swapcase",
    "s VARCHAR",
    "VARCHAR",
    signature(TEXT, result=VARCHAR),
    kernel=over_first(pc.utf8_swapcase),
    family="string",
)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> runnel.Connection:
    """A connection that knows the function: in the code, a line in FUNCTIONS of its family."""
    for table, name in ((FUNCTIONS, "swapcase"), (SQL_NAMES, "SWAPCASE")):
        assert isinstance(table, FunctionRegistry)
        monkeypatch.setitem(table._known, name, SWAPCASE)
    return runnel.connect()


def test_swapcase(connection: runnel.Connection) -> None:
    with connection:
        query = "SELECT s, SWAPCASE(s) FROM (VALUES ('Ab'), ('cD1'), (NULL)) AS t(s)"
        assert connection.execute(query).fetchall() == [("Ab", "aB"), ("cD1", "Cd1"), (None, None)]
        with pytest.raises(runnel.ProgrammingError, match="argument 1 of SWAPCASE must be VARCHAR"):
            connection.execute("SELECT SWAPCASE(1)")
