"""The names by which state is found again are those of the first version: names of vertices,
identities, columns of state.

`stored_names/identities.txt` and `columns.txt` say what is in the directories of users. For new
queries at the end of `queries.sql` run `python -m tests.snapshots.named_states`; no other line of
these files may change. The columns of a query's state are found by running it: a query over the
stream `s` or GENERATE_STREAM has none in `columns.txt`. Write it over the scripted stream `a`,
which ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runnel.columns.type_records import type_spelling
from runnel.connection import Connection
from runnel.expressions.aggregates.registry import AGGREGATES
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Call, Column
from runnel.planner.explain import nodes as describe
from runnel.planner.identity import expressions as identity_expressions
from runnel.planner.operators.passes import EXPLAIN, IDENTITY, LOWERING, Pass
from runnel.planner.operators.streams import live
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical
from runnel.relation.state_identity import Form
from runnel.sqltypes import BIGINT, Kind, SqlType, array, decimal, map_of, row
from tests.product_modules import modules
from tests.snapshots.named_states import (
    FOLDER,
    column_lines,
    connected,
    identity_lines,
    may_end,
    plan_of,
    queries,
    written_down,
)

CHANGED = (
    "the name of stored state has changed, so jobs would not find it. Keep the old spelling; or "
    "write the new one as another version (meanings.VERSION), go on reading the old one, "
    "and pin both"
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with connected(tmp_path_factory.mktemp("tables")) as made:
        yield made


def test_identities(connection: Connection) -> None:
    pinned = written_down("identities")
    assert list(pinned) == queries(), "run python -m tests.snapshots.named_states"
    for sql, lines in pinned.items():
        assert identity_lines(connection, sql) == lines, f"{CHANGED}\n{sql}"


def test_columns_of_state(connection: Connection) -> None:
    """When snapshots are taken decides which of these are met."""
    pinned = written_down("columns")
    assert list(pinned) == queries(), "run python -m tests.snapshots.named_states"
    for sql in filter(may_end, queries()):
        found = column_lines(connection, sql)
        assert set(found) <= set(pinned[sql]), f"{CHANGED}\n{sql}"
        assert bool(found) is bool(pinned[sql])


def test_queries_have_all_forms_and_steps(connection: Connection) -> None:
    found = [
        line.partition(": {")[2] for lines in written_down("identities").values() for line in lines
    ]
    assert {json.loads(f"{{{text}")["form"] for text in found} == {form.value for form in Form}
    kinds = {kind for sql in queries() for kind in _kinds(plan_of(connection, sql).physical)}
    assert _classes(IDENTITY) - kinds == {physical.NarrowedFragment}, "add a query to queries.sql"


def _classes(item: Pass[Any]) -> set[type]:
    """The classes of the product that have a rule in a pass."""
    modules("planner")  # the homes register their rules
    return {kind for kind in item.rules if kind.__module__.startswith("runnel.")}


def _kinds(node: Physical) -> Iterator[type[Physical]]:
    yield type(node)
    for item in (node.shared,) if isinstance(node, physical.Shared) else node.inputs:
        yield from _kinds(item)


def test_every_step_that_is_a_vertex_has_an_identity() -> None:
    """Scans and writes go by their tables, Shared makes no vertex of its own, and EMIT CHANGES is
    refused in a job."""
    others = {physical.SourceScan, physical.IndexScan, physical.Write, physical.Shared}
    others.add(live.PhysicalChangeStream)
    assert _classes(LOWERING) - others == _classes(IDENTITY)


def test_identities_do_not_depend_on_explain(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in _classes(EXPLAIN):
        monkeypatch.setitem(EXPLAIN.rules, kind, _reworded(EXPLAIN.rules[kind]))
    for kind in list(identity_expressions._RULES):
        monkeypatch.setattr(kind, "__str__", lambda item: "other words")
    monkeypatch.setattr(SqlType, "__str__", lambda item: "another type")
    for sql, lines in written_down("identities").items():
        assert identity_lines(connection, sql) == lines, sql
    plan = connection._session.prepare("SELECT k FROM a LIMIT 5", ())
    assert describe.describe(plan.physical).title == "Reworded"  # type: ignore[attr-defined]


def _reworded(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda node: (
        "Reworded",
        {f"other {name}": text[::-1] for name, text in rule(node)[1].items()},
    )


def test_names_of_functions() -> None:
    """A function that is renamed keeps its name in identities: add it to `identity_expressions`."""
    pinned = (FOLDER / "functions.txt").read_text("utf-8").splitlines()
    assert set(pinned) <= set(function_lines()), CHANGED


def function_lines() -> list[str]:
    """Calls as they stand in identities, of each function with two arguments."""
    arguments = tuple(Column(index=place, name=f"c{place}", type=BIGINT) for place in range(2))
    calls = [Call(function=name, arguments=arguments, type=BIGINT) for name in FUNCTIONS]
    names = (*AGGREGATES, *WINDOW_FUNCTIONS)
    aggregates = [AggregateCall(function=name, arguments=arguments, type=BIGINT) for name in names]
    return sorted({identity_expressions.text(item) for item in (*calls, *aggregates)})


def test_spelling_of_types() -> None:
    kinds = [
        SqlType(kind) for kind in Kind if kind not in (Kind.DECIMAL, Kind.ARRAY, Kind.MAP, Kind.ROW)
    ]
    nested = [
        decimal(5, 2),
        array(array(BIGINT)),
        map_of(BIGINT, decimal(3, 0)),
        row(("a", BIGINT), ("b", array(BIGINT))),
    ]
    assert [type_spelling(item) for item in (*kinds, *nested)] == [
        *(
            "NULL",
            "INTERVAL YEAR TO MONTH",
            "INTERVAL DAY TO SECOND",
            "INTERVAL",
            "JSON",
            "VARBINARY",
            "VARCHAR",
            "BOOLEAN",
            "TINYINT",
        ),
        *(
            "SMALLINT",
            "INTEGER",
            "BIGINT",
            "REAL",
            "DOUBLE",
            "TIME",
            "DATE",
            "TIMESTAMP",
            "TIMESTAMP WITH TIME ZONE",
            "UUID",
        ),
        *("DECIMAL(5, 2)", "BIGINT[][]", "MAP(BIGINT, DECIMAL(3, 0))", "ROW(a BIGINT, b BIGINT[])"),
    ], CHANGED
