"""Each table of aggregates names every aggregate function: in the table, or here among those that
it leaves out on purpose."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from types import FunctionType
from typing import Any, NamedTuple

import pytest

from runnel.expressions.aggregates.registry import AGGREGATES, SPREADS, WITHIN_GROUP
from runnel.planner.pushdown import partial_aggregation
from runnel.rendering import aggregates as rendering
from runnel.statements import functions as show_functions
from tests.product_modules import defines, file_of, members, modules
from tests.snapshots.named_states import FOLDER

PAIRS = {"corr", "covar_pop", "covar_samp", *(name for name in AGGREGATES if "regr_" in name)}
MOMENTS = {"skewness", "kurtosis", "kurtosis_pop", *PAIRS}
QUANTILES = {"percentile_cont", "percentile_disc", "approx_quantile"}
CHOICES = {"first", "last", "arg_min", "arg_max", "mode"}
LISTS = {"array_agg", "string_agg"}
ESTIMATES = {"approx_distinct"}
BITS = {"bit_and", "bit_or", "bit_xor"}
COUNTS = {"count", "count_star"}
EXTREMES = {"min", "max", "bool_and", "every", "bool_or"}
SUMS = {"sum", "avg"}
TIMES = {"avg_time"}

OWN = "no other engine computes the same value: Runnel does it itself"
SLOWER = "without an entry the plan is slower, not wrong"


class Column(NamedTuple):
    """The rules of one engine in a table of rendering."""

    table: Mapping[str, Any]
    engine: str


class Table(NamedTuple):
    """What lists aggregates.

    purpose: what an entry does, for the message.
    sites: the tables and functions that together name aggregates.
    left_out: by reason, the names that no site has.
    """

    purpose: str
    sites: tuple[Any, ...]
    left_out: Mapping[str, set[str]]


TABLES = [
    Table(
        "rendering for DuckDB",
        (Column(rendering.AGGREGATES, "duckdb"),),
        {OWN: {"product", *TIMES, *MOMENTS, *QUANTILES, *CHOICES, *ESTIMATES}},
    ),
    Table(
        "rendering for Spark",
        (Column(rendering.AGGREGATES, "spark"),),
        {OWN: {"product", "any_value", *TIMES, *MOMENTS, *QUANTILES, *CHOICES, *LISTS, *ESTIMATES}},
    ),
    Table(
        "rendering of OVER for Spark",
        (rendering.OVER_IN_SPARK,),
        {
            "Spark's rendering refuses it OVER a window": {
                "product",
                *TIMES,
                "any_value",
                *SPREADS,
                *BITS,
                *MOMENTS,
                *QUANTILES,
                *CHOICES,
                *LISTS,
                *ESTIMATES,
            }
        },
    ),
    Table(
        "aggregates over parts of the rows",
        (partial_aggregation._AS_THEY_ARE, partial_aggregation._split),
        {
            SLOWER: {"product", "any_value", *TIMES, *SPREADS, *MOMENTS},
            "its value doesn't follow from values of parts": {*QUANTILES, *CHOICES, *ESTIMATES},
            "the order of its rows spans the parts": LISTS,
        },
    ),
    Table(
        "aggregates to which repeated rows are one",
        (partial_aggregation._TWICE_OR_ONCE,),
        {
            "a repeated row changes it": {
                "product",
                *TIMES,
                "bit_xor",
                *COUNTS,
                *SUMS,
                *SPREADS,
                *MOMENTS,
                *QUANTILES,
                *LISTS,
                *(CHOICES & {"mode"}),
            },
            SLOWER: {"any_value", *ESTIMATES, *(CHOICES - {"mode"})},
        },
    ),
    Table(
        "arguments in SHOW FUNCTIONS",
        (show_functions._ARGUMENTS,),
        {
            "it has the argument x": {
                "any_value",
                "product",
                "skewness",
                "kurtosis",
                "kurtosis_pop",
                "sum",
                *EXTREMES,
                *SPREADS,
                *BITS,
                *ESTIMATES,
            },
            "it has the arguments y and x": PAIRS,
        },
    ),
    Table(
        "results in SHOW FUNCTIONS",
        (show_functions._RESULTS,),
        {"sample arguments show it": set(AGGREGATES) - {"sum", "avg", "avg_time", *QUANTILES}},
    ),
    Table(
        "WITHIN GROUP",
        (WITHIN_GROUP,),
        {
            "SQL has no WITHIN GROUP for it": set(AGGREGATES)
            - {"mode", "percentile_cont", "percentile_disc", *LISTS}
        },
    ),
]

FAMILIES = {
    "engine/expressions/aggregates/ordered.py::_FUNCTIONS",
    "engine/expressions/aggregates/quantiles.py::_FUNCTIONS",
    "engine/expressions/aggregates/registry.py::AGGREGATES",
    "engine/expressions/aggregates/registry.py::SPREADS",
    "engine/expressions/aggregates/registry.py::_SQL_NAMES",
    "engine/expressions/aggregates/statistics.py::_PAIRS",
    "engine/processors/grouping/numpy_groups.py::_ACCUMULATED",
    "engine/processors/grouping/numpy_groups.py::_FUNCTIONS",
    "engine/processors/over/running_values.py::_EXTREMES",
}
"""Tables that define aggregates, or have names of Arrow's; the last is tested below."""


def names_in(site: Any) -> frozenset[str]:
    """The aggregates that a table has, or that a function names."""
    if isinstance(site, Column):
        rules = {name: getattr(row, site.engine) for name, row in site.table.items()}
        return frozenset(name for name, rule in rules.items() if rule is not None)
    if not isinstance(site, FunctionType):
        return frozenset(name for name in site if isinstance(name, str)) & AGGREGATES.keys()
    tree = ast.parse(textwrap.dedent(inspect.getsource(site)))
    constants = {part.value for part in ast.walk(tree) if isinstance(part, ast.Constant)}
    return frozenset(name for name in AGGREGATES if name in constants)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.purpose)
def test_a_table_names_every_aggregate(table: Table) -> None:
    named = frozenset().union(*map(names_in, table.sites))
    left_out = frozenset().union(*table.left_out.values())
    missing = sorted(AGGREGATES.keys() - named - left_out)
    assert not missing, (
        f"{table.purpose}: {missing} have no entry in {places(table)}. Add one; if there is "
        f'nothing to do, add them to `left_out` of Table("{table.purpose}") in '
        "tests/expressions/aggregates/test_aggregate_tables.py, under the reason"
    )
    both = sorted(named & left_out)
    assert not both, f"{table.purpose}: {both} have entries: take them out of `left_out`"


def places(table: Table) -> str:
    """Where the entries of a table stand."""
    return " or ".join(
        place for place, value in tables() if any(value is table_of(site) for site in table.sites)
    )


def table_of(site: Any) -> Any:
    """The table of a site that is one column of it; else the site itself."""
    return site.table if isinstance(site, Column) else site


def tables() -> list[tuple[str, Any]]:
    """The tables that consist of names of aggregates, three or more."""
    packages = ("expressions.aggregates", "planner", "processors", "rendering", "statements")
    return [
        (f"{file_of(module)}::{name}", value)
        for module in modules(*packages)
        for name, value in members(module)
        if isinstance(value, Mapping | tuple | frozenset | set)
        and len(found := names_in(value)) > 2
        and len(found) * 2 > len(value)
        and defines(module, name)
    ]


def test_every_table_of_aggregates_is_listed() -> None:
    known = {id(table_of(site)) for table in TABLES for site in table.sites}
    unknown = [name for name, value in tables() if id(value) not in known]
    assert set(unknown) <= FAMILIES, (
        f"{sorted(set(unknown) - FAMILIES)} list aggregates: add a Table for each to "
        "tests/expressions/aggregates/test_aggregate_tables.py"
    )


def test_identities_of_aggregates_are_pinned() -> None:
    pinned = (FOLDER / "functions.txt").read_text("utf-8")
    names = AGGREGATES.keys() - {"count_star"}
    missing = [name for name in sorted(names) if f"{name.upper()}(" not in pinned]
    lines = [f"{name.upper()}(c0, c1)" for name in missing]
    assert not missing, (
        f"add the lines {lines} to tests/snapshots/stored_names/functions.txt, in the order of the "
        "alphabet; the arguments are c0, c1, … whatever their number: a stored job finds its state "
        "by this text"
    )
