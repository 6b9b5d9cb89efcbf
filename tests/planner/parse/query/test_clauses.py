"""The words of a clause are spelled in one table."""

from __future__ import annotations

import ast
from pathlib import Path

from runnel.planner.bind import hints
from runnel.planner.parse.query import clauses, table_arguments

FOLDER = Path(__file__).parents[4] / "planner" / "parse" / "query"
TABLES = [path.name for path in FOLDER.glob("*.py") if path.name != "clauses.py"]
SHARED = {"GROUP", "FIRST", "VALUE", "CAST", "TRIM", "LEADING", "TRAILING", "GROUPING SETS"}
"""Words that also name a node of the tree, or a function in a message."""


def test_words_of_clauses_are_in_one_table() -> None:
    """A table of three words of clauses, or more, belongs to `clauses.CLAUSES`."""
    for name in TABLES:
        tree = ast.parse((FOLDER / name).read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                words = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                spelled = sorted(words & clauses.GRAMMAR.dropped - SHARED)
                assert len(spelled) < 3, f"{name}:{node.lineno} spells {spelled}"


def test_suggestions_know_the_table_functions() -> None:
    assert set(hints.TABLE_FUNCTIONS) >= table_arguments.FUNCTIONS


def test_every_entry_says_what_it_adds() -> None:
    names = [clause.name for clause in clauses.CLAUSES]
    assert len(set(names)) == len(names)
    for clause in clauses.CLAUSES:
        assert bool(clause.begins) == (clause.rule is not None), clause.name
        assert clause.rule is not None or not clause.inside, clause.name
        assert clause.shapes.keys() | clause.variables.keys() <= clauses.GRAMMAR.allowed.keys()
