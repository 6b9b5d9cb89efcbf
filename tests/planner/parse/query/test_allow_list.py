"""The allow-list holds what is listed, and nothing that sqlglot may add."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot import exp

from runnel.errors import NotSupportedError, ProgrammingError
from runnel.planner.parse.query.allow_list import check
from runnel.planner.parse.query.clauses import GRAMMAR
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import Query

VALID = (Path(__file__).parents[1] / "valid_statements.sql").read_text().splitlines()


def test_every_listed_node_and_argument_exists() -> None:
    for name, arguments in GRAMMAR.allowed.items():
        node_class = getattr(exp, name, None)
        assert node_class is not None, name
        assert arguments <= set(node_class.arg_types), (name, arguments - set(node_class.arg_types))


def test_every_listed_node_is_met() -> None:
    met: set[str] = set()
    for sql in VALID:
        statement = parse(sql)
        for part in (
            statement,
            getattr(statement, "query", None),
            getattr(statement, "statement", None),
        ):
            if isinstance(part, Query):
                met |= {type(node).__name__ for node in part.expression.walk()}
    assert set(GRAMMAR.allowed) - met == set(), (
        "add a statement to tests/planner/parse/valid_statements.sql"
    )
    assert met - set(GRAMMAR.allowed) == set()


def test_an_unknown_node_is_refused() -> None:
    tree = exp.select(exp.Soundex(this=exp.column("a")))
    with pytest.raises(NotSupportedError, match="SOUNDEX is not supported"):
        check(tree, "select soundex(a)", [], [], GRAMMAR)


def test_an_unknown_argument_is_refused() -> None:
    tree = exp.select("a").from_("t")
    tree.set("operation_modifiers", [exp.var("x")])
    with pytest.raises(NotSupportedError, match="OPERATION_MODIFIERS in SELECT is not supported"):
        check(tree, "select a from t", [], [], GRAMMAR)


def test_a_word_that_sqlglot_reads_over_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GRAMMAR, "dropped", set())
    with pytest.raises(ProgrammingError, match='syntax error at "nulls"'):
        parse("select a from t order by a nulls last")


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("select {}", 98),
        ("select ({})", 97),
        ("select a, -({})", 96),
        ("select 1 where 1 < {}", 96),
    ],
)
def test_the_limit_of_depth(sql: str, most: int) -> None:
    assert parse(sql.format(" + ".join(["a"] * most)))
    with pytest.raises(ProgrammingError, match="nested more than 100 deep"):
        parse(sql.format(" + ".join(["a"] * (most + 1))))


@pytest.mark.parametrize("operator", ["and", "or", "||"])
def test_a_chain_is_one_level(operator: str) -> None:
    chain = f" {operator} ".join(["a"] * 500)
    assert parse(f"select {chain}")
    with pytest.raises(ProgrammingError, match="nested more than 100 deep"):
        parse(f"select {chain} {operator} {' + '.join(['a'] * 99)}")
