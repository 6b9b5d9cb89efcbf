"""The example of docs/contributing.md: a clause of SELECT."""

from __future__ import annotations

import pytest
from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

import runnel
from runnel.planner.parse.query import query
from runnel.planner.parse.query.clauses import CLAUSES, Clause, Grammar
from runnel.planner.parse.query.token_pass import TokenPass


def descending(to: TokenPass, token: Token) -> bool:
    """DESCENDING becomes DESC, which sqlglot parses."""
    to.put(to.next(), TokenType.DESC, "DESC")
    return True


DESCENDING = Clause("ORDER BY a DESCENDING", ("DESCENDING",), rule=descending)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> runnel.Connection:
    """A connection that knows the clause: in the code, an entry of CLAUSES."""
    monkeypatch.setattr(query, "GRAMMAR", Grammar((*CLAUSES, DESCENDING)))
    return runnel.connect()


def test_descending(connection: runnel.Connection) -> None:
    with connection:
        sql = "SELECT n FROM (VALUES (1), (3), (2)) AS t(n) ORDER BY n DESCENDING"
        assert connection.execute(sql).fetchall() == [(3,), (2,), (1,)]
