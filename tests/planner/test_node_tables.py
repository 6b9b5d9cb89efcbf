"""Each rule of the planner names every node class: in its table, or here among those that it leaves
as they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from runnel.foreign import fragment as foreign
from runnel.planner import estimates
from runnel.planner.bind.streams import state_names
from runnel.planner.event_time import bounds, check, over_streams
from runnel.planner.explain import nodes as explain_nodes
from runnel.planner.explain import state as explain_state
from runnel.planner.identity import nodes as identity_nodes
from runnel.planner.identity import state_columns, vertices
from runnel.planner.lower import lower
from runnel.planner.physical import choose, late_rows, recursion, stream_nodes
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.sharing import streams as stream_sharing
from runnel.planner.physical.sharing import tables as table_sharing
from runnel.planner.pushdown import dynamic_filters, fragments, memory_need
from runnel.planner.rules import (
    column_pruning,
    empty_relations,
    limit_pushdown,
    predicate_pushdown,
)
from runnel.planner.rules.decorrelation import correlation, subquery_nodes
from runnel.planner.verify import final_rows, replay
from runnel.relation import nodes as logical
from runnel.relation import over, streams, subqueries
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
UNNESTING = {logical.Unnest, subqueries.Series, subqueries.UnnestTogether}
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
    physical.PhysicalUnnest,
    physical.PhysicalSeries,
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
    Rule("column pruning", (column_pruning._RULES,), GONE),
    Rule(
        "predicate push-down",
        (predicate_pushdown._RULES,),
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
        (empty_relations._RULES, empty_relations.is_empty),
        {
            **GONE,
            "it has no input": LEAVES - {logical.Values},
            SAFE: {logical.SetOperation, streams.AsOfJoin},
        },
    ),
    Rule(
        "limit push-down",
        (limit_pushdown.push_limits, limit_pushdown._push, limit_pushdown._limited),
        {
            **GONE,
            "fewer input rows would change its result": {
                logical.Filter,
                streams.AsOfJoin,
                *BUFFERING,
                *STREAM_ORDER,
            },
            SAFE: {logical.Expand, *UNNESTING},
            "it has nowhere to put a limit": LEAVES - {logical.Scan},
        },
    ),
    Rule(
        "correlation",
        (correlation._RULES,),
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
        (subquery_nodes._RULES, subquery_nodes._rewritten),
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
        (estimates._ESTIMATES,),
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
        (bounds._RULES,),
        {
            REPLACED: DEPENDENT,
            BOUNDED: {*ENGINE, *LEAVES} - {logical.Scan, logical.Generate},
            "it has no column of event time": {logical.Generate},
            "it is refused on a stream": COMPARING,
            "the watermark isn't followed through it: windows above it are refused": {
                subqueries.Series
            },
        },
    ),
    Rule(
        "refusals of streams",
        (check._CHECKS, check.check_streaming),
        {
            REPLACED: DEPENDENT,
            "it emits the rows of a stream as they come": {
                logical.Expand,
                logical.Union,
                streams.ImposeOrder,
                *FILTERING,
                *UNNESTING,
            },
            "it has no input": {*LEAVES, *ENGINE},
        },
    ),
    Rule(
        "distances between columns of event time",
        (over_streams._below,),
        {
            REPLACED: DEPENDENT,
            "its columns begin there": {*LEAVES, *ENGINE},
            "it is refused on a stream": COMPARING,
            "the watermark isn't followed through it: OVER and ORDER BY above it are refused": {
                logical.Expand,
                logical.Union,
                subqueries.Series,
                subqueries.UnnestTogether,
                streams.AsOfJoin,
            },
        },
    ),
    Rule(
        "choice of operators",
        (choose._CHOICES,),
        {REPLACED: DEPENDENT, "only the plan of another engine has it": {foreign.InputRows}},
    ),
    Rule(
        "EXPLAIN",
        (explain_nodes._RULES, explain_nodes._described),
        {
            REPLACED: DEPENDENT,
            "EXPLAIN shows the logical plan without it": ENGINE,
            "sharing replaces it": {physical.PhysicalCommonRows},
        },
    ),
    Rule(
        "which operators keep state",
        (identity_nodes._KEEPING,),
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
        (identity_nodes.RULES, vertices._signature),
        {"it has no vertex of its own": {physical.Shared, *REFERENCES}},
    ),
    Rule(
        "forms of state",
        (vertices._state_of, vertices._BUFFERING_ROWS),
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
        (state_columns._below,),
        {
            "its columns have no side: to name one would rename columns of stored state": {
                physical.PhysicalLimit,
                physical.PhysicalUnion,
                physical.PhysicalExpand,
                physical.PhysicalUnnest,
                physical.PhysicalSeries,
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
    Rule("lowering", (lower.RULES,), {"it is replaced before lowering": REFERENCES}),
    Rule(
        "stages of a recursion",
        (recursion._STAGES, recursion._is_working_table),
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
        (stream_sharing._LINKS, stream_sharing._is_shareable_scan),
        {
            "the rule compares its exact class": {physical.SourceScan},
            NOT_SHARED: {
                physical.HashJoin,
                physical.PhysicalLimit,
                physical.PhysicalSeries,
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
        (table_sharing._LINKS,),
        {
            NOT_SHARED: {
                physical.PhysicalRecursion,
                physical.PhysicalSeries,
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
        (table_sharing._TableSharing._waits,),
        {
            "it emits rows while it reads, or is taken to: its input is spooled where it waits": {
                physical.PhysicalGroupLimit,
                physical.PhysicalLimit,
                physical.PhysicalRecursion,
                physical.PhysicalSetOperation,
                physical.PhysicalWindow,
                stream_nodes.LookupJoin,
                stream_nodes.SessionRows,
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
        (dynamic_filters._RULES,),
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
                physical.PhysicalSeries,
                physical.PhysicalSetOperation,
                physical.PhysicalUnnest,
                physical.PhysicalValues,
                stream_nodes.LookupJoin,
            },
            "it may have another reader": {*REFERENCES, *SHARED},
            "it is never below a join": {*LATE, *WRITE},
        },
    ),
    Rule(
        "fragments",
        (fragments._Placing.place,),
        {
            REPLACED: DEPENDENT,
            "only the plan of another engine has it": {foreign.InputRows},
            "it has no input": LEAVES,
            "its input is computed once for each round": {subqueries.Recursion},
            SAFE: {subqueries.UnnestTogether, streams.AsOfJoin, *STREAM_ORDER},
        },
    ),
    Rule(
        "nodes that hold their input in memory",
        (memory_need._blocking_action, memory_need._HOLDING),
        {
            REPLACED: DEPENDENT,
            "it holds no input": {
                logical.Expand,
                logical.Union,
                *ENGINE,
                *LEAVES,
                *FILTERING,
                *UNNESTING,
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
        (memory_need.most_rows,),
        {
            REPLACED: DEPENDENT,
            "its estimate is used": {
                *ENGINE,
                *UNNESTING,
                *STREAM_ORDER,
                *(LEAVES - {logical.Scan}),
                subqueries.Recursion,
                streams.AsOfJoin,
            },
        },
    ),
    Rule(
        "late rows of a SESSION below",
        (late_rows.passing_late,),
        {
            "its rows are no longer those of the SESSION": {
                physical.PhysicalCommonRows,
                physical.PhysicalLimit,
                physical.PhysicalSeries,
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
        (replay.replayed,),
        {
            "it means the same over tables": {
                logical.Expand,
                logical.Union,
                streams.AssignWindows,
                *FILTERING,
                *UNNESTING,
                *COMPARING,
                *(LEAVES - {logical.Scan, logical.Generate}),
            },
            REPLACED: DEPENDENT,
            LATER: ENGINE,
        },
    ),
    Rule(
        "VERIFY JOB: final rows",
        (final_rows._gives_at_once,),
        {
            "it emits results when the watermark passes": {
                logical.Aggregate,
                logical.Sort,
                over.Window,
                streams.AsOfJoin,
            },
            "it is refused on a stream, or by VERIFY JOB": {logical.Limit, *COMPARING},
            "a job with it over a stream isn't verified at its end": {subqueries.Series},
            BOUNDED: {subqueries.CommonRows, subqueries.WorkingTable},
            REPLACED: DEPENDENT,
            LATER: ENGINE,
        },
    ),
    Rule(
        "names of state",
        (state_names._has_state,),
        {
            "it keeps nothing on a stream": {
                logical.Expand,
                logical.Union,
                streams.ImposeOrder,
                *LEAVES,
                *FILTERING,
                *UNNESTING,
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
                subqueries.Series,
                subqueries.UnnestTogether,
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
                subqueries.Series,
                subqueries.UnnestTogether,
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
                subqueries.Series,
                subqueries.UnnestTogether,
                subqueries.WorkingTable,
                streams.AsOfJoin,
            },
        },
    ),
]

PARTIAL = {
    "connectors/duckdb/fragments.py::_HEAVY": SAFE,
    "connectors/duckdb/fragments.py::_work": SAFE,
    "connectors/spark/fragments/fragment.py::is_sorted": "it looks for a Sort below simple nodes",
    "planner/bind/recursive.py::_forbidden": "an unknown stage is refused by choose_recursion",
    "planner/bind/streams/emission.py::_lowest": "a query without its nodes is refused",
    "planner/bind/streams/late_joins.py::_with_columns_of_streams": "other queries are refused",
    "planner/estimates.py::domain_size": "the estimate of the node is used",
    "planner/explain/streams.py::STREAM_RULES": "a part of the table of planner/explain/nodes.py",
    "planner/explain/state.py::_RULES": "held equal to _KEEPING by the test below",
    "planner/lower/aggregates.py::_STAGES": "reached from the table of planner/lower/lower.py",
    "planner/physical/choose.py::_calc": "it joins neighbouring projections and filters",
    "planner/physical/choose.py::_ordered": "it recognises a sort by a table's own order",
    "planner/physical/key_lookup.py::key_lookup": SAFE,
    "planner/physical/sharing/tables.py::_WORTH_KEEPING": SAFE,
    f"planner/physical/sharing/tables.py::{table_sharing._TableSharing.note.__qualname__}": SAFE,
    "planner/physical/sharing/tables.py::_TAKE_ALL": "used by _Sharing._waits",
    "planner/pushdown/fragments.py::_OPEN": "used by _Placing.place",
    "planner/pushdown/memory_need.py::_gives_at_end": SAFE,
    "planner/rules/decorrelation/hoisting.py::_existence_only": SAFE,
    "planner/rules/decorrelation/hoisting.py::has_one_row": SAFE,
    "planner/rules/decorrelation/laterals.py::_grafted": "the general rewrite handles the others",
    "planner/rules/decorrelation/laterals.py::_grafted_outer": "the general rewrite is used",
    "planner/verify/final_rows.py::_AT_ONCE": "used by _gives_at_once",
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


def test_explain_names_the_state_of_what_keeps_some() -> None:
    described, keeping = set(explain_state._RULES), set(identity_nodes._KEEPING)
    assert described == keeping, (
        f"{described ^ keeping} must be in both _RULES of planner/explain/state.py and _KEEPING of "
        "planner/identity/nodes.py, or in neither"
    )
