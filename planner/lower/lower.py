"""From physical operators to a DAG, for a given number of processors per vertex.

The homes of the nodes register the rules (`planner/operators/passes.py::LOWERING`). A rule connects
the inputs, makes the vertex and returns its output. With a parallelism of 1 every operator is one
vertex of one processor. With more, scans run as many processors as they have partitions,
row-by-row operators follow them on isolated edges, aggregations accumulate there and combine by
key, joins send the build side to every processor or partition both sides by key, and operators that
need an order run in one processor.

The DAG of a query is a tree: a scan that occurs twice is two vertices. So no two inputs of a vertex
hang on one producer, and reading one input to its end before another (the build side of a join)
can't block on a full queue of its own making. Only what the planner shares is one vertex with
several readers: of streams outside of build sides, of tables with a spool for each reader that may
have to wait.

Each rule imports the processor that its vertex runs, so that a process loads only the operators of
its queries.
"""

from __future__ import annotations

from runnel.dag import DAG
from runnel.planner.lower.dag_builder import (
    Lowering,
)
from runnel.planner.physical.nodes import Physical
from runnel.processors.sinks.result import result_sink


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
