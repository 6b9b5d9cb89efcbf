"""A join with a table that is read again and again, under dice: processors share its versions,
whoever of them reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runnel.dag import DAG, Edge, between
from runnel.expressions.nodes import Column
from runnel.processors.joins.build_side import JoinShape
from runnel.processors.joins.refreshed import Calculation, RefreshedTable, refreshed_join
from runnel.processors.sinks.result_queue import result_sink
from runnel.processors.sources.scan import scan
from runnel.relation.nodes import Field, JoinKind
from runnel.runtime.simulation import Simulation, SimulationOptions, StandstillError
from runnel.sqltypes import BIGINT
from runnel.testing.rows import rows_of
from runnel.testing.scripted import ABORT, PAUSE, ScriptedSource

FIELDS = (Field("k", BIGINT), Field("v", BIGINT))
KEY = Column(index=0, type=BIGINT, name="k")


def rows(*pairs: tuple[int, int]) -> pa.RecordBatch:
    keys, values = zip(*pairs, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.int64()), pa.array(values, pa.int64())], names=["k", "v"]
    )


def plan(stream: ScriptedSource, table: ScriptedSource, processors: int, interval: int) -> DAG:
    dag = DAG()
    source = dag.vertex("stream", scan(stream, None, None, ("k", "v")), processors)
    join = refreshed_join(
        RefreshedTable(table, (Calculation(None, None, ("k", "v")),), interval),
        JoinShape(JoinKind.LEFT, None, None),
        ((KEY,), (KEY,)),
        (FIELDS, FIELDS),
        ("k", "v", "k_2", "v_2"),
    )
    joined = dag.vertex("join", join, processors)
    result = dag.vertex("result", result_sink(), 1)
    edge: Edge = between(source, joined)
    dag.edge(edge.isolated()).edge(between(joined, result))
    dag.validate()
    return dag


@pytest.mark.parametrize("processors", [1, 3])
@pytest.mark.parametrize("interval", [1, 50_000, 10**15])
def test_all_processors_have_the_table_at_all_times(processors: int, interval: int) -> None:
    for seed in range(30):
        stream = ScriptedSource(
            *([rows((n % 7, n + 1000 * i)) for n in range(5 * i + 1)] for i in range(4))
        )
        table = ScriptedSource([rows((1, 10), (2, 20)), rows((3, 30))], [], [rows((4, 40))])
        options = SimulationOptions(parallelism=2, delay=0.3 if seed % 2 else 0.9)
        simulation = Simulation(plan(stream, table, processors, interval), seed, options)
        simulation.run()
        assert simulation.error is None, simulation.error
        known = {1: 10, 2: 20, 3: 30, 4: 40}
        expected = [(n % 7, n + 1000 * i, n % 7, known[n % 7]) if n % 7 in known
                    else (n % 7, n + 1000 * i, None, None)
                    for i in range(4) for n in range(5 * i + 1)]  # fmt: skip
        assert sorted(rows_of(simulation.batches), key=lambda row: row[1]) == sorted(
            expected, key=lambda row: row[1]
        )
        assert table.closed >= table.opened >= 3


def test_nobody_is_polled_while_the_first_version_is_waited_for() -> None:
    for seed in range(10):
        stream = ScriptedSource(*([rows((1, number))] for number in range(3)))
        table = ScriptedSource([PAUSE, rows((1, 10))])
        simulation = Simulation(
            plan(stream, table, 3, 10**15), seed, SimulationOptions(parallelism=2, steps=5_000)
        )
        with pytest.raises(StandstillError, match="no event is possible"):
            simulation.run()
        table.resume()
        simulation.run()
        assert simulation.error is None, simulation.error
        assert sorted(rows_of(simulation.batches)) == [(1, number, 1, 10) for number in range(3)]


def test_a_first_read_that_fails_ends_the_job() -> None:
    for seed in range(10):
        table = ScriptedSource([rows((1, 10)), ABORT])
        simulation = Simulation(plan(ScriptedSource([rows((1, 1))]), table, 1, 1000), seed)
        simulation.run()
        assert "the script says ABORT" in str(simulation.error)
        assert table.closed >= table.opened == 1
