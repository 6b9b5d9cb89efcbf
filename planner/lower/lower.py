"""From physical operators to a DAG, for a given number of processors per vertex.

One function per node, each in three steps: connect the inputs, make the vertex, say what comes out
of it. With a parallelism of 1 every operator is one vertex of one processor. With more, scans run
as many processors as they have partitions for, what follows them stays with them on isolated edges,
aggregations accumulate there and combine by key, joins give the build side to every processor or
divide both sides by key, and what must be in order comes together in one processor.

The DAG of a query is a tree: a scan that occurs twice is two vertices. So no two inputs of a vertex
hang on one producer, and reading one input to its end before another (the build side of a join)
can't block on a full queue of its own making. Only what the planner shares is one vertex with
several readers: of streams outside of build sides, of tables with those readers holding its rows
that might have to wait.

Each function imports the processor that its vertex runs, so that a process loads only the operators
that its queries have.
"""

from __future__ import annotations

from runnel.dag import DAG
from runnel.planner.lower.dag_builder import (
    Lowering,
)
from runnel.planner.physical.nodes import Physical
from runnel.processors.sinks.result import result_sink

BUILD_PRIORITY = 0
PROBE_PRIORITY = 1


def lower(plan: Physical, parallelism: int) -> DAG:
    """The DAG that runs a physical plan on `parallelism` worker threads and hands its rows to the
    job's results."""
    lowering = Lowering(parallelism)
    rows = lowering.lower(plan)
    lowering.follow(rows, "result", result_sink(), 1)
    if lowering.shared is not None:
        lowering.shared.connect(lowering.dag)
    lowering.dag.validate()
    return lowering.dag
