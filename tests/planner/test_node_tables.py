"""Each pass of the planner has a rule for every class of node, or its home states that the default
of the pass is right."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from threading import Event, Lock
from typing import Any

import pytest

from runnel.planner.operators import passes
from runnel.planner.operators.passes import PHYSICAL, RELATION, RENDERED, NodeSet, Pass
from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Relation
from runnel.rendering.duckdb import relations as duckdb_relations
from runnel.rendering.spark import relations as spark_relations
from runnel.rendering.spark import streams as spark_streams
from tests.planner.node_classes import PACKAGES, Dispatch, dispatches, subclasses
from tests.product_modules import modules

BASES = {RELATION: Relation, PHYSICAL: Physical}
PASSES = {name: item for name, item in vars(passes).items() if isinstance(item, Pass)}
SAFE = "without an entry the plan is slower, not wrong"
RENDERING = (
    duckdb_relations.DuckDBRelations.rules,
    spark_relations.SparkRelations.rules,
    spark_streams._Streams.rules,
)
"""The tables of nodes that other engines run."""

PARTIAL = {
    "connectors/spark/fragments/fragment.py::is_sorted": "it looks for a Sort below simple nodes",
    "connectors/duckdb/fragments.py::_PLAIN": "a fragment of other nodes has a thread",
    "connectors/duckdb/fragments.py::DuckDBFragment.is_short": "only scans read rows of tables",
    "planner/bind/tables/definitions.py::_literals": "other columns keep their type",
    "planner/physical/direct.py::_CHAIN": "a plan of other nodes is a job",
    "planner/physical/direct.py::_expressions": "only for the nodes of _CHAIN",
    "planner/bind/streams/emission.py::_lowest": "a query without its nodes is refused",
    "planner/bind/streams/late_joins.py::_with_columns_of_streams": "other queries are refused",
    "planner/estimates.py::domain_size": "the estimate of the node is used",
    "planner/live/unique_columns.py::unique_columns": "an unknown node has no known key",
    "planner/lower/aggregates.py::_STAGES": "reached from the table of the homes",
    "planner/operators/calculations.py::_choose_calc": "it fuses projections and filters",
    "planner/operators/sorting.py::scan_in_order": "it recognises a sort by a table's own order",
    "planner/physical/key_lookup.py::key_lookup": SAFE,
    "planner/pushdown/memory_need.py::_emits_at_end": SAFE,
    "planner/rules/decorrelation/hoisting.py::_existence_only": SAFE,
    "planner/rules/decorrelation/hoisting.py::has_one_row": SAFE,
    "planner/rules/interval_keys.py::_is_concerned": "other nodes compare no values",
    "planner/rules/interval_keys.py::_rewritten": "other nodes compare no values",
    "engine/rendering/plan_shapes.py::is_chain": "an unknown node keeps conditions apart",
    "engine/rendering/plan_shapes.py::is_unique": "an unknown node gets a check",
    "engine/rendering/relations.py::RelationRendering.rules": "a part of the table of each engine",
}
"""Tables and functions outside of homes that need not know every node, with the reason."""


@pytest.fixture(scope="module", autouse=True)
def homes() -> None:
    modules(*PACKAGES)  # each home registers when it is imported


def classes_of(item: Pass[Any]) -> frozenset[type]:
    """The classes that a pass treats."""
    return frozenset().union(*(subclasses(BASES[kind]) for kind in item.kinds))


@cache
def found() -> tuple[Dispatch, ...]:
    return tuple(dispatches())


@pytest.mark.parametrize("name", PASSES)
def test_a_home_states_a_rule_or_the_default_for_each_class(name: str) -> None:
    item = PASSES[name]
    for node in sorted(classes_of(item) - item.rules.keys() - item.defaulted, key=str):
        home = f"planner/operators/{node.family.replace('.', '/')}.py"  # type: ignore[attr-defined]
        choice = f"by_default({node.__name__}, {name}) if this is right: {item.default}"
        pytest.fail(
            f"{item.purpose}: {node.__module__}.{node.__qualname__} is nowhere. Register in {home} "
            f"a rule of {name}" + (f", or write {choice}" if item.default else "")
        )


@pytest.mark.parametrize("name", PASSES)
def test_a_class_has_either_a_rule_or_the_default(name: str) -> None:
    item = PASSES[name]
    both = sorted(node.__qualname__ for node in item.rules.keys() & item.defaulted)
    assert not both, f"{both} have a rule in {name}: take them out of by_default"


def test_each_class_has_a_home() -> None:
    kinds = subclasses(Relation) | subclasses(Physical)
    assert [node for node in kinds if not node.family] == []  # type: ignore[attr-defined]


def test_homes_state_which_nodes_are_rendered() -> None:
    rendered = frozenset().union(*RENDERING)
    assert {node for node in RENDERED.rules if node.__module__.startswith("runnel.")} == rendered


def test_every_table_of_nodes_is_a_pass() -> None:
    known = {id(item) for item in (*PASSES.values(), *RENDERING)}
    unknown = [
        item.name for item in found() if id(item.value) not in known and item.name not in PARTIAL
    ]
    assert not unknown, (
        f"{unknown} dispatch on nodes: make each a Pass in planner/operators/passes.py, or add to "
        "PARTIAL in tests/planner/test_node_tables.py why it need not know every node"
    )


def test_partial_tables_exist() -> None:
    assert PARTIAL.keys() <= {item.name for item in found()}


def test_a_pass_without_a_default_raises_for_an_unknown_class() -> None:
    class Unknown(Relation):
        """A node without a home."""

    with pytest.raises(Exception, match="column pruning: no rule for Unknown"):
        passes.PRUNING.rule(Unknown())
    assert Unknown() not in NodeSet("a property", RELATION, default="without it")


class _Node:
    family = "a family of this test"


def test_a_second_thread_waits_until_the_rules_of_a_family_are_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with an import: a second `load` of the family returns after the first."""
    found: Pass[str] = Pass("a test", default="none")
    importing, begun, proceed = Lock(), Event(), Event()

    def load(family: str) -> None:
        with importing:
            if _Node not in found.rules:
                begun.set()
                assert proceed.wait(60)
                found.add("the rule", _Node)

    monkeypatch.setattr(Pass, "load", staticmethod(load))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(found.find, _Node())
        assert begun.wait(60)
        second = threads.submit(found.find, _Node())
        assert not wait((second,), timeout=0.05).done
        proceed.set()
        assert (first.result(60), second.result(60)) == ("the rule", "the rule")


def test_a_thread_finds_a_rule_that_another_thread_registers_during_the_lookup() -> None:
    """The first look-up of this thread misses; then the other thread loads the whole family."""
    found: Pass[str] = Pass("a test", default="none")

    class Rules(dict[type, str]):
        def get(self, key: type, default: Any = None) -> Any:
            missed = super().get(key, default)
            if missed is None:
                self[key] = "the rule"
                passes._LOADED.add(_LateNode.family)
            return missed

    found.rules = Rules()
    try:
        assert found.find(_LateNode()) == "the rule"
    finally:
        passes._LOADED.discard(_LateNode.family)


class _LateNode:
    family = "another family of this test"
