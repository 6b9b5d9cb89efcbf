"""The hint STATE(name) reaches every vertex that stores state: errors of ALTER JOB suggest it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from runnel.connection import Connection
from runnel.planner import planner
from runnel.planner.parse.statement import parse
from runnel.processor import Processor, Stateful
from runnel.processors.grouping.group_limit import GroupLimitProcessor
from runnel.processors.grouping.set_operation import SetOperationProcessor
from runnel.processors.joins.join import HashJoinProcessor
from runnel.processors.live.changelog import ChangelogProcessor
from runnel.processors.live.live_processor import LiveProcessor
from runnel.processors.live.views.input import ViewInputProcessor
from runnel.processors.live.views.publish import ViewProcessor
from runnel.processors.sinks.stream_write import StreamWrite
from runnel.processors.sources.generate import GenerateStream
from runnel.processors.sources.impose_order import ImposeOrderProcessor
from runnel.processors.sources.scan import ScanProcessor
from runnel.processors.spool import SpoolProcessor
from runnel.processors.stateful.late_filter import LateFilterProcessor
from runnel.processors.stream_joins.stream_join import StreamJoinProcessor
from runnel.runtime.simulation import Simulation, SimulationOptions
from tests.snapshots.crashes import Outside, dag_of, with_sink
from tests.snapshots.named_states import connected, plan_of, queries

SUBQUERY = "a join that replaces a subquery has no name"

LIVE = "the planner makes it after names are assigned"

WITHOUT_NAME: dict[type[Processor], str] = {
    ChangelogProcessor: LIVE,
    LiveProcessor: LIVE,
    GenerateStream: "it is a source",
    GroupLimitProcessor: SUBQUERY,
    HashJoinProcessor: SUBQUERY,
    ImposeOrderProcessor: "its only state is watermarks",
    LateFilterProcessor: "its only state is watermarks",
    ScanProcessor: "the name of its table identifies it",
    SetOperationProcessor: "it is refused on a stream",
    SpoolProcessor: "sharing of common tables makes it, after names are assigned",
    StreamJoinProcessor: SUBQUERY,
    StreamWrite: "the name of its table identifies it",
    ViewInputProcessor: "the name of its view identifies it",
    ViewProcessor: "the name of its view identifies it",
}
"""Processors with state that have vertices without the name of a hint: the reason."""


def test_the_hint_names_every_vertex_with_state(tmp_path: Path) -> None:
    with connected(tmp_path) as connection:
        found = {kind for sql in queries() for kind in unnamed(connection, sql)}
    missing = sorted(kind.__name__ for kind in found - WITHOUT_NAME.keys())
    assert not missing, (
        f"STATE(name) does not reach {missing}: register the relational node in STATE_NAMES "
        "(planner/operators/passes.py), or add the processor to WITHOUT_NAME with the reason"
    )
    assert found == WITHOUT_NAME.keys()


def unnamed(connection: Connection, sql: str) -> Iterator[type[Processor]]:
    """The classes of processors that restore state in vertices that the hint does not name."""
    hinted = re.sub(r"\bSELECT\b(?! /\*)", "SELECT /*+ STATE(clicks) */", sql)
    dag = dag_of(plan_in_job(connection, hinted), 2)
    if sql.startswith(("SELECT", "WITH")):
        dag = with_sink(dag, Outside())
    for tasklet in Simulation(dag, 7, SimulationOptions(snapshot=0.02)).execution.tasklets:
        kind = type(tasklet.processor)
        is_named = re.search(r" clicks\b", tasklet.vertex) is not None
        if is_named or not issubclass(kind, Stateful):
            continue
        if kind.restore_snapshot is not Stateful.restore_snapshot:
            yield kind


def plan_in_job(connection: Connection, sql: str) -> Any:
    """The plan of a statement as a job plans it; a query without a sink, too."""
    if not sql.startswith(("SELECT", "WITH")):
        return plan_of(connection, sql)
    session = connection._session
    environment = replace(session.planning_environment("UTC"), in_job=True, pushdown=None)
    return planner._plan(parse(sql), session.catalog, (), environment)
