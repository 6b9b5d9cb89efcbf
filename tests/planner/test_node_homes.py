"""The number of product files that name a class of nodes stays small."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Relation
from tests.planner.node_classes import PACKAGES, subclasses
from tests.product_modules import modules
from tests.syntax_trees import nodes_of

ROOT = Path(__file__).parents[2]

MOST_FILES = 6
"""Number of product files that name a class: its definition, binding, home and what is special."""

MORE_FILES = {
    "AsOfJoin": 9,
    "AssignWindows": 9,
    "Calc": 13,
    "DependentJoin": 8,
    "Generate": 7,
    "GroupLimit": 7,
    "HashJoin": 9,
    "ImposeOrder": 7,
    "PhysicalFragment": 7,
    "Recursion": 7,
    "Shared": 8,
    "SourceScan": 15,
}
"""Classes that several rewrites recognise or build. The numbers only shrink."""

ALGEBRA = frozenset("Aggregate Filter Join Limit Project Scan Sort Union Values Window".split())
"""Relational algebra, of which any rewrite is made."""


@cache
def names_in_files() -> dict[Path, frozenset[str]]:
    """The names in the code of each product file; comments and docstrings don't count."""
    return {
        path: frozenset(
            getattr(node, field)
            for node in nodes_of(path.read_text("utf-8"))
            for field in ("id", "attr", "name")
            if isinstance(getattr(node, field, None), str)
        )
        for folder in ("engine", "planner", "connectors")
        for path in (ROOT / folder).rglob("*.py")
    }


def node_classes() -> list[type]:
    modules(*PACKAGES)
    found = subclasses(Relation) | subclasses(Physical)
    return sorted(
        (node for node in found if node.__name__ not in ALGEBRA), key=lambda node: node.__name__
    )


@pytest.mark.parametrize("node", node_classes(), ids=lambda node: str(node.__name__))
def test_few_files_name_a_class(node: type) -> None:
    name = node.__name__
    files = [
        str(path.relative_to(ROOT)) for path, names in names_in_files().items() if name in names
    ]
    most = MORE_FILES.get(name, MOST_FILES)
    assert len(files) <= most, (
        f"{name} is named in {len(files)} files, at most {most}: move what treats it to its home "
        "in planner/operators/, or to a module that names it already (a clause of FROM: "
        f"planner/bind/tables/from_clause.py): {sorted(files)}"
    )


def test_listed_classes_exist() -> None:
    assert MORE_FILES.keys() <= {node.__name__ for node in node_classes()}
