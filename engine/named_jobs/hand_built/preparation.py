"""The preparation of a hand-built DAG for an execution, and the outcomes for its state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from runnel.dag import DAG
from runnel.expressions.context import EvaluationContext
from runnel.named_jobs.guarantees import guarantees_of
from runnel.named_jobs.hand_built.dag_record import dag_from_json, state_texts
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.run import PreparedJob
from runnel.named_jobs.state_evolution.compatibility import (
    StateOutcome,
    VertexOutcome,
    may_begin_empty,
)
from runnel.relation.state_identity import StateSignature
from runnel.sqltypes import SqlType
from runnel.storage.value_codec import Importer, imported

Resolve = Callable[[DAG], tuple[DAG, SqlType | None]]
"""Returns the DAG with suppliers that have the tables of the mappings that it names, and the type
of the times of their watermarks; None: there are none."""


def prepared_dag(
    record: JobRecord,
    *,
    resolve: Resolve,
    linger: int,
    accumulation_limit: int,
    importer: Importer = imported,
) -> PreparedJob:
    """The DAG of a job's record, ready to run; OperationalError, with the vertex, if a supplier
    cannot be imported.

    resolve: finds the mappings that the DAG names.
    linger: maximum time, in ns, that rows of a stream may wait in a source for larger batches.
    accumulation_limit: maximum number of rows that one processor may accumulate; 0: no limit.
    """
    assert record.dag is not None
    dag, event_time = resolve(dag_from_json(record.dag, importer))
    is_unbounded = dag.is_unbounded
    return PreparedJob(
        dag=dag,
        evaluation=EvaluationContext((), record.created, record.zone),
        is_unbounded=is_unbounded,
        written=frozenset(name for name in dag.vertices if not dag.outputs(name)),
        event_time=event_time if is_unbounded else None,
        linger=linger if is_unbounded else 0,
        accumulation_limit=accumulation_limit,
        guarantee=guarantees_of(dag, record.options.guarantee)[0],
        signatures={
            vertex: StateSignature(text=text).encode()
            for vertex, text in state_texts(record.dag).items()
        },
    )


def named_outcomes(
    with_state: Collection[str],
    before: Mapping[str, str],
    after: Mapping[str, str],
    dag: DAG,
    *,
    empties: bool,
) -> list[VertexOutcome]:
    """The outcome for each vertex with state: vertices are matched by their names alone.

    with_state: vertices with state in the snapshot.
    before: encoded state signatures of the job that took the snapshot.
    after: encoded state signatures of the DAG.
    empties: a vertex that cannot use its state begins without, except sources and sinks.
    """
    found = []
    for vertex in sorted(with_state):
        if vertex not in after:
            found.append(VertexOutcome(vertex, StateOutcome.DROPPED, source=vertex))
            continue
        old, new = _text(before.get(vertex)), _text(after[vertex])
        if old in (new, ""):
            found.append(VertexOutcome(vertex, StateOutcome.KEPT, source=vertex))
            continue
        reason = f"as it was {old}, and is {new}"
        outcome = VertexOutcome(vertex, StateOutcome.REFUSED, reason, source=vertex)
        if empties and may_begin_empty(outcome, dag) and dag.outputs(vertex):
            outcome = VertexOutcome(vertex, StateOutcome.EMPTY, reason, source=vertex)
        found.append(outcome)
    return found


def _text(signature: str | None) -> str:
    return "" if signature is None else StateSignature.decode(signature).text
