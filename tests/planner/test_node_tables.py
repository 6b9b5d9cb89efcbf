"""Each rule of the planner names every node class: in its table, or here among those that it leaves
as they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from runnel.foreign import fragment as foreign
from runnel.planner.explain import nodes as explain_nodes
from runnel.planner.identity import vertices
from runnel.planner.operators.passes import (
    BLOCKING,
    BOUNDS,
    CHOICES,
    CORRELATION,
    DYNAMIC_FILTERS,
    EMPTY,
    ESTIMATES,
    EXPLAIN,
    FINAL_ROWS,
    FRAGMENT_INPUTS,
    HOISTING,
    IDENTITY,
    LATE_ROWS,
    LIMITS,
    LOWERING,
    MOST_ROWS,
    ORIGINS,
    PREDICATES,
    PRUNING,
    READS_ALL,
    REPLAY,
    STAGES,
    STATE_COLUMNS,
    STATE_FORMS,
    STATE_NAMES,
    STATE_TEXTS,
    STREAM_CHECKS,
    STREAM_SHARING,
    TABLE_SHARING,
    Pass,
)
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import recursion, stream_nodes
from runnel.planner.physical.sharing import streams as stream_sharing
from runnel.planner.physical.sharing import tables as table_sharing
from runnel.planner.pushdown import fragments
from runnel.planner.rules import (
    empty_relations,
    limit_pushdown,
)
from runnel.planner.rules.decorrelation import subquery_nodes
from runnel.relation import nodes as logical
from runnel.relation import over, streams, subqueries, unnest
from runnel.rendering.duckdb import relations as duckdb_relations
from runnel.rendering.spark import relations as spark_relations
from runnel.rendering.spark import streams as spark_streams
from tests.planner.node_classes import Dispatch, classes_in, dispatches, subclasses

# Logical nodes, in groups that most rules treat alike.
DEPENDENT = {subqueries.DependentJoin}
ENGINE = {foreign.Fragment, foreign.InputRows}
LEAVES = {
    logical.Scan,
    logical.Values,
    logical.Generate,
    subqueries.WorkingTable,
    subqueries.CommonRows,
}
FILTERING = {logical.Filter, logical.Project, logical.Limit}
STREAM_ORDER = {streams.ImposeOrder, streams.AssignWindows}
PAIRING = {logical.Join, streams.AsOfJoin}
COMPARING = {logical.SetOperation, subqueries.GroupLimit, subqueries.Recursion}
BUFFERING = {logical.Aggregate, logical.Sort, over.Window, *COMPARING}

# Physical nodes.
SCANS = {physical.SourceScan, physical.IndexScan}
FRAGMENTS = {physical.PhysicalFragment, physical.NarrowedFragment}
P_LEAVES = {*SCANS, *FRAGMENTS, physical.PhysicalValues, physical.PhysicalGenerate}
REFERENCES = {physical.PhysicalCommonRows, physical.PhysicalWorkingTable}
SHARED = {physical.Shared, physical.Spool}
P_ROW_BY_ROW = {
    physical.Calc,
    physical.PhysicalExpand,
}
P_GROUPING = {physical.HashAggregate, physical.PhysicalGroupLimit, physical.PhysicalSetOperation}
P_ORDERING = {physical.PhysicalSort, physical.TopN, physical.PhysicalWindow}
P_BUFFERING = {*P_GROUPING, *P_ORDERING, physical.PhysicalRecursion}
P_WINDOWS = {stream_nodes.PhysicalAssignWindows, stream_nodes.PhysicalImposeOrder}
P_GROUPED_WINDOWS = {stream_nodes.FramedAggregate, stream_nodes.SessionAggregate}
P_STREAM_GROUPS = {
    stream_nodes.EventTimeAggregate,
    stream_nodes.SessionRows,
    *P_GROUPED_WINDOWS,
}
P_STREAM_ORDER = {stream_nodes.EventTimeSort, stream_nodes.EventTimeWindow}
P_STREAM_JOINS = {stream_nodes.IntervalJoin, stream_nodes.WindowJoin, stream_nodes.PhysicalAsOfJoin}
WRITE = {physical.Write}
LATE = {stream_nodes.LateFilter}

REPLACED = "an earlier rule replaces it"
LATER = "it is made after this rule, for another engine"
BOUNDED = "it has no input without end"
SAFE = "without an entry the plan is slower, not wrong"
REFUSED = "the rule refuses it with an error"
NOT_KEEPING = "it keeps no rows and no results"
NOT_SHARED = "it is run once for each use"
IN_ENGINES = "the rule runs on plans for tables"


class Rule(NamedTuple):
    """What dispatches on nodes.

    purpose: what the rule does, for the message.
    sites: the tables and functions that together handle nodes.
    untouched: by reason, the classes that no site names.
    """

    purpose: str
    sites: tuple[Any, ...]
    untouched: Mapping[str, set[type]]


GONE: dict[str, set[type]] = {REPLACED: DEPENDENT, LATER: ENGINE}

RULES = [
    Rule("column pruning", (PRUNING,), GONE),
    Rule(
        "predicate push-down",
        (PREDICATES,),
        {
            **GONE,
            "it has no input to filter": LEAVES,
            "fewer input rows would change its result": {
                logical.Limit,
                subqueries.Recursion,
                streams.ImposeOrder,
            },
            SAFE: {logical.Expand, streams.AsOfJoin},
        },
    ),
    Rule(
        "empty relations",
        (EMPTY, empty_relations.is_empty),
        {
            **GONE,
            "it has no input": LEAVES - {logical.Values},
            SAFE: {logical.SetOperation, streams.AsOfJoin},
        },
    ),
    Rule(
        "limit push-down",
        (LIMITS, limit_pushdown.push_limits, limit_pushdown.limited),
        {
            **GONE,
            "fewer input rows would change its result": {
                logical.Filter,
                streams.AsOfJoin,
                *BUFFERING,
                *STREAM_ORDER,
            },
            SAFE: {logical.Expand},
            "it has nowhere to put a limit": LEAVES - {logical.Scan},
        },
    ),
    Rule(
        "correlation",
        (CORRELATION,),
        {
            "the rule rewrites it before": DEPENDENT,
            LATER: ENGINE,
            "it has no expressions here": {
                logical.Scan,
                subqueries.Recursion,
                subqueries.WorkingTable,
                subqueries.CommonRows,
                streams.ImposeOrder,
            },
            REFUSED: {streams.AsOfJoin},
        },
    ),
    Rule(
        "subqueries of a node",
        (HOISTING, subquery_nodes._rewritten),
        {
            LATER: ENGINE,
            "it has no expressions here": {
                logical.Scan,
                logical.Union,
                logical.SetOperation,
                subqueries.Recursion,
                subqueries.WorkingTable,
                subqueries.CommonRows,
                streams.ImposeOrder,
            },
            REFUSED: {
                logical.Generate,
                logical.Limit,
                logical.Expand,
                subqueries.GroupLimit,
                streams.AsOfJoin,
            },
        },
    ),
    Rule(
        "estimates",
        (ESTIMATES,),
        {
            "it has as many rows as its input": {
                logical.Project,
                logical.Sort,
                over.Window,
                streams.ImposeOrder,
            },
            "the number of its rows is unknown": {
                streams.AsOfJoin,
                subqueries.Recursion,
                subqueries.WorkingTable,
                foreign.InputRows,
            },
            REPLACED: DEPENDENT,
        },
    ),
    Rule(
        "bounds of event time",
        (BOUNDS,),
        {
            REPLACED: DEPENDENT,
            BOUNDED: {*ENGINE, *LEAVES} - {logical.Scan, logical.Generate},
            "it has no column of event time": {logical.Generate},
            "it is refused on a stream": COMPARING,
        },
    ),
    Rule(
        "refusals of streams",
        (STREAM_CHECKS,),
        {
            REPLACED: DEPENDENT,
            "it emits the rows of a stream as they come": {
                logical.Expand,
                logical.Union,
                streams.ImposeOrder,
                *FILTERING,
            },
            "it has no input": {*LEAVES, *ENGINE},
        },
    ),
    Rule(
        "distances between columns of event time",
        (ORIGINS,),
        {
            REPLACED: DEPENDENT,
            "its columns begin there": {*LEAVES, *ENGINE},
            "it is refused on a stream": COMPARING,
            "the watermark isn't followed through it: OVER and ORDER BY above it are refused": {
                logical.Expand,
                logical.Union,
                streams.AsOfJoin,
            },
        },
    ),
    Rule(
        "choice of operators",
        (CHOICES,),
        {REPLACED: DEPENDENT, "only the plan of another engine has it": {foreign.InputRows}},
    ),
    Rule(
        "EXPLAIN",
        (EXPLAIN, explain_nodes._described),
        {
            REPLACED: DEPENDENT,
            "EXPLAIN shows the logical plan without it": ENGINE,
            "sharing replaces it": {physical.PhysicalCommonRows},
        },
    ),
    Rule(
        "which operators keep state",
        (STATE_TEXTS,),
        {
            NOT_KEEPING: {
                physical.PhysicalLimit,
                physical.PhysicalUnion,
                stream_nodes.LookupJoin,
                *P_LEAVES,
                *REFERENCES,
                *SHARED,
                *P_ROW_BY_ROW,
                *P_WINDOWS,
                *LATE,
                *WRITE,
            }
        },
    ),
    Rule(
        "identity of operators",
        (IDENTITY, vertices._signature),
        {"it has no vertex of its own": {physical.Shared, *REFERENCES}},
    ),
    Rule(
        "forms of state",
        (STATE_FORMS,),
        {
            NOT_KEEPING: {
                physical.PhysicalLimit,
                physical.PhysicalUnion,
                stream_nodes.LookupJoin,
                *P_LEAVES,
                *REFERENCES,
                *SHARED,
                *P_ROW_BY_ROW,
                *P_WINDOWS,
                *WRITE,
            },
            "its state is found again only where its text is the same": {
                physical.HashJoin,
                *P_BUFFERING,
            },
        },
    ),
    Rule(
        "names of columns in state",
        (STATE_COLUMNS,),
        {
            "its columns have no side: to name one would rename columns of stored state": {
                physical.PhysicalLimit,
                physical.PhysicalUnion,
                physical.PhysicalExpand,
                stream_nodes.PhysicalAssignWindows,
                stream_nodes.EventTimeWindow,
                *P_LEAVES,
                *REFERENCES,
                *P_BUFFERING,
                *P_STREAM_GROUPS,
                *LATE,
                *WRITE,
            }
        },
    ),
    Rule("lowering", (LOWERING,), {"it is replaced before lowering": REFERENCES}),
    Rule(
        "stages of a recursion",
        (STAGES, recursion._is_working_table),
        {
            REFUSED: {
                physical.PhysicalRecursion,
                physical.PhysicalSetOperation,
                physical.PhysicalUnion,
                physical.PhysicalCommonRows,
                stream_nodes.PhysicalAsOfJoin,
                stream_nodes.LookupJoin,
                *P_GROUPED_WINDOWS,
                *P_LEAVES,
            },
            "only streams have it, which a recursion can't read": {
                stream_nodes.PhysicalImposeOrder,
                stream_nodes.EventTimeAggregate,
                stream_nodes.IntervalJoin,
                stream_nodes.WindowJoin,
                *P_STREAM_ORDER,
                *LATE,
            },
            "it is made after the stages": {*SHARED, *WRITE},
        },
    ),
    Rule(
        "sharing on streams",
        (STREAM_SHARING, stream_sharing._is_shareable_scan),
        {
            "the rule compares its exact class": {physical.SourceScan},
            NOT_SHARED: {
                physical.HashJoin,
                physical.PhysicalLimit,
                physical.PhysicalUnion,
                stream_nodes.LookupJoin,
                stream_nodes.EventTimeSort,
                *FRAGMENTS,
                physical.IndexScan,
                physical.PhysicalValues,
                physical.PhysicalGenerate,
                *REFERENCES,
                *P_BUFFERING,
                *P_STREAM_JOINS,
                *LATE,
                *WRITE,
            },
            "it is made by sharing": SHARED,
        },
    ),
    Rule(
        "sharing on tables",
        (TABLE_SHARING,),
        {
            NOT_SHARED: {
                physical.PhysicalRecursion,
                physical.PhysicalWorkingTable,
                stream_nodes.LookupJoin,
                stream_nodes.SessionRows,
                stream_nodes.PhysicalAsOfJoin,
                *FRAGMENTS,
                *WRITE,
            },
            "only streams have it": {
                stream_nodes.PhysicalImposeOrder,
                stream_nodes.EventTimeAggregate,
                stream_nodes.IntervalJoin,
                stream_nodes.WindowJoin,
                *P_STREAM_ORDER,
                *LATE,
            },
            "it is made by sharing": SHARED,
            "the plan that it stands for is shared": {physical.PhysicalCommonRows},
        },
    ),
    Rule(
        "operators that read all their input first",
        (READS_ALL, table_sharing._TableSharing._waits),
        {
            "it emits rows while it reads, or is taken to: its input is spooled where it waits": {
                physical.PhysicalGroupLimit,
                physical.PhysicalLimit,
                physical.PhysicalRecursion,
                physical.PhysicalSetOperation,
                physical.PhysicalWindow,
                stream_nodes.LookupJoin,
                stream_nodes.SessionRows,
                stream_nodes.EventTimeAggregate,
                stream_nodes.EventTimeSort,
                stream_nodes.EventTimeWindow,
                *P_LEAVES,
                *REFERENCES,
                *SHARED,
                *P_ROW_BY_ROW,
                *P_WINDOWS,
                *P_STREAM_JOINS,
                *LATE,
                *WRITE,
            }
        },
    ),
    Rule(
        "dynamic filters",
        (DYNAMIC_FILTERS,),
        {
            "fewer input rows would change its result": {
                physical.PhysicalGroupLimit,
                physical.PhysicalLimit,
                physical.PhysicalRecursion,
                physical.TopN,
                *P_WINDOWS,
                *P_STREAM_GROUPS,
                *P_STREAM_ORDER,
                *P_STREAM_JOINS,
            },
            SAFE: {
                physical.PhysicalExpand,
                physical.IndexScan,
                physical.PhysicalGenerate,
                physical.PhysicalSetOperation,
                physical.PhysicalValues,
                stream_nodes.LookupJoin,
            },
            "it may have another reader": {*REFERENCES, *SHARED},
            "it is never below a join": {*LATE, *WRITE},
        },
    ),
    Rule(
        "fragments",
        (FRAGMENT_INPUTS, fragments._Placing.place),
        {
            REPLACED: DEPENDENT,
            "only the plan of another engine has it": {foreign.InputRows},
            "it has no input": LEAVES,
            "its input is computed once for each round": {subqueries.Recursion},
            SAFE: {streams.AsOfJoin, *STREAM_ORDER},
        },
    ),
    Rule(
        "nodes that hold their input in memory",
        (BLOCKING,),
        {
            REPLACED: DEPENDENT,
            "it holds no input": {
                logical.Expand,
                logical.Union,
                *ENGINE,
                *LEAVES,
                *FILTERING,
            },
            "no engine with a limit of memory runs it": {
                subqueries.Recursion,
                streams.AsOfJoin,
                *STREAM_ORDER,
            },
        },
    ),
    Rule(
        "the most rows of a node",
        (MOST_ROWS,),
        {
            REPLACED: DEPENDENT,
            "its estimate is used": {
                *ENGINE,
                *STREAM_ORDER,
                *(LEAVES - {logical.Scan}),
                subqueries.Recursion,
                streams.AsOfJoin,
            },
        },
    ),
    Rule(
        "late rows of a SESSION below",
        (LATE_ROWS,),
        {
            "its rows are no longer those of the SESSION": {
                physical.PhysicalCommonRows,
                physical.PhysicalLimit,
                physical.PhysicalWorkingTable,
                *P_LEAVES,
                *P_BUFFERING,
                *P_WINDOWS,
                *P_STREAM_JOINS,
                *P_STREAM_ORDER,
                stream_nodes.EventTimeAggregate,
                *P_GROUPED_WINDOWS,
                *LATE,
                *WRITE,
            },
            "it is made afterwards": SHARED,
        },
    ),
    Rule(
        "VERIFY JOB: the query over tables",
        (REPLAY,),
        {
            "it means the same over tables": {
                logical.Expand,
                logical.Union,
                streams.AssignWindows,
                *FILTERING,
                *COMPARING,
                *(LEAVES - {logical.Scan, logical.Generate}),
            },
            REPLACED: DEPENDENT,
            LATER: ENGINE,
        },
    ),
    Rule(
        "VERIFY JOB: final rows",
        (FINAL_ROWS,),
        {
            "it emits results when the watermark passes": {
                logical.Aggregate,
                logical.Sort,
                over.Window,
                streams.AsOfJoin,
            },
            "it is refused on a stream, or by VERIFY JOB": {logical.Limit, *COMPARING},
            BOUNDED: {subqueries.CommonRows, subqueries.WorkingTable},
            REPLACED: DEPENDENT,
            LATER: ENGINE,
        },
    ),
    Rule(
        "names of state",
        (STATE_NAMES,),
        {
            "it keeps nothing on a stream": {
                logical.Expand,
                logical.Union,
                streams.ImposeOrder,
                *LEAVES,
                *FILTERING,
                *COMPARING,
            },
            "a join replaces it after names are given": DEPENDENT,
            LATER: ENGINE,
        },
    ),
    Rule(
        "rendering for DuckDB",
        (duckdb_relations.DuckDBRelations.rules,),
        {
            REPLACED: DEPENDENT,
            "a fragment isn't part of a fragment": {foreign.Fragment},
            REFUSED: {
                subqueries.CommonRows,
                unnest.Series,
                streams.AsOfJoin,
                *STREAM_ORDER,
            },
        },
    ),
    Rule(
        "rendering for Spark",
        (spark_relations.SparkRelations.rules,),
        {
            REPLACED: DEPENDENT,
            "a fragment isn't part of a fragment": {foreign.Fragment},
            REFUSED: {
                subqueries.CommonRows,
                unnest.Series,
                subqueries.WorkingTable,
                streams.AsOfJoin,
                *STREAM_ORDER,
            },
        },
    ),
    Rule(
        "rendering of streams for Spark",
        (spark_streams._Streams.rules,),
        {
            REPLACED: DEPENDENT,
            "a fragment isn't part of a fragment": {foreign.Fragment},
            REFUSED: {
                subqueries.CommonRows,
                unnest.Series,
                subqueries.WorkingTable,
                streams.AsOfJoin,
            },
        },
    ),
]

PARTIAL = {
    "planner/operators/passes.py::GRAFTING": SAFE,
    "planner/operators/passes.py::NARROWABLE": SAFE,
    "planner/operators/passes.py::WORTH_SHARING": SAFE,
    "connectors/duckdb/fragments.py::_HEAVY": SAFE,
    "connectors/duckdb/fragments.py::_work": SAFE,
    "connectors/spark/fragments/fragment.py::is_sorted": "it looks for a Sort below simple nodes",
    "planner/bind/recursive.py::_forbidden": "an unknown stage is refused by choose_recursion",
    "planner/bind/streams/emission.py::_lowest": "a query without its nodes is refused",
    "planner/bind/streams/late_joins.py::_with_columns_of_streams": "other queries are refused",
    "planner/estimates.py::domain_size": "the estimate of the node is used",
    "planner/lower/aggregates.py::_STAGES": "reached from the table of planner/lower/lower.py",
    "planner/operators/calculations.py::_choose_calc": "it fuses projections and filters",
    "planner/operators/sorting.py::scan_in_order": "it recognises a sort by a table's own order",
    "planner/physical/key_lookup.py::key_lookup": SAFE,
    "planner/pushdown/memory_need.py::_gives_at_end": SAFE,
    "planner/rules/decorrelation/hoisting.py::_existence_only": SAFE,
    "planner/rules/decorrelation/hoisting.py::has_one_row": SAFE,
    "engine/rendering/plan_shapes.py::COSTLY": SAFE,
    "engine/rendering/plan_shapes.py::is_chain": "an unknown node keeps conditions apart",
    "engine/rendering/plan_shapes.py::is_unique": "an unknown node gets a check",
    "engine/rendering/relations.py::RelationRendering.rules": "a part of the table of each engine",
    "engine/rendering/spark/streams.py::_REFUSED": "it only words refusals",
}
"""Tables and functions that need not know every node, with the reason."""


@cache
def found() -> tuple[Dispatch, ...]:
    return tuple(dispatches())


def sites_of(rule: Rule) -> list[str]:
    names = {id(item.value): item.name for item in found()}
    return [
        names.get(id(site)) or f"{site.__module__.removeprefix('runnel.')}::{site.__qualname__}"
        for site in rule.sites
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.purpose)
def test_a_rule_names_every_node(rule: Rule) -> None:
    named = frozenset().union(*map(classes_in, rule.sites))
    untouched = frozenset().union(*rule.untouched.values())
    required: frozenset[type] = frozenset()
    for base in (logical.Relation, physical.Physical):
        if named & subclasses(base):
            required |= subclasses(base)
    where = " or ".join(sites_of(rule))
    for node in sorted(required - named - untouched, key=str):
        pytest.fail(
            f"{rule.purpose}: {node.__module__}.{node.__qualname__} is in no table. Give it an "
            f"entry in {where}; if there is nothing to do for it, add it to `untouched` of "
            f'Rule("{rule.purpose}") in tests/planner/test_node_tables.py, under the reason'
        )
    if any(isinstance(site, Pass) for site in rule.sites):
        return
    both = sorted(node.__qualname__ for node in named & untouched)
    assert not both, f"{rule.purpose}: {both} have entries in {where}: take them out of `untouched`"


def test_every_table_of_nodes_belongs_to_a_rule() -> None:
    known = {id(site) for rule in RULES for site in rule.sites}
    unknown = [
        item.name for item in found() if id(item.value) not in known and item.name not in PARTIAL
    ]
    assert not unknown, (
        f"{unknown} dispatch on relational nodes: add a Rule for each to "
        "tests/planner/test_node_tables.py, or to PARTIAL there why they need not know every node"
    )


def test_partial_tables_exist() -> None:
    assert PARTIAL.keys() <= {item.name for item in found()}
