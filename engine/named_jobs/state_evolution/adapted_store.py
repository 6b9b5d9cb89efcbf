"""A job's snapshot as a changed plan reads it: the state of each vertex under its new name, and
converted to its new windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from runnel.dag import DAG
from runnel.expressions.kernels.buffers import pack
from runnel.named_jobs.state_evolution.compatibility import VertexOutcome, reread_vertices
from runnel.named_jobs.state_evolution.converted_state import converted, of_other_stage
from runnel.named_jobs.state_evolution.row_columns import with_columns
from runnel.relation.state_identity import StateSignature
from runnel.snapshots.store import ENDED, SIGNATURES, SnapshotStore, StateReader, VertexState
from runnel.sqltypes import VARCHAR


class AdaptedSnapshots:
    """Reads a snapshot for another plan.

    store: store of the snapshot.
    found: outcome for each vertex's state.
    signatures: state signatures of the old and of the new plan.
    dag: the new plan.
    """

    def __init__(
        self,
        store: SnapshotStore,
        found: Sequence[VertexOutcome],
        signatures: tuple[Mapping[str, str], Mapping[str, str]],
        dag: DAG,
    ) -> None:
        self._store = store
        self._outcomes: dict[str, list[VertexOutcome]] = {}
        for item in found:
            if item.takes_state:
                self._outcomes.setdefault(item.vertex, []).append(item)
        self._names = {item.source: item.vertex for item in found if item.takes_state}
        self._signatures = signatures
        self._dag = dag
        self._repeated = reread_vertices(dag, found)

    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        """Implements `StateReader`."""
        if vertex == ENDED:
            return self._ended(snapshot_id)
        found: list[pa.RecordBatch] = []
        outcomes = self._outcomes.get(vertex, ())
        if len(outcomes) == 1 and self._is_as_it_was(outcomes[0]):
            return self._store.read(snapshot_id, outcomes[0].source)
        for outcome in outcomes:
            batches = self._store.read(snapshot_id, outcome.source)
            made = converted(batches, outcome.change, dict(outcome.watermarks))
            if outcome.columns:
                made = with_columns(made, outcome.columns, outcome.widths, outcome.names)
            if outcome.crosses_stages:
                made = of_other_stage(made, outcome.source.startswith("accumulate"))
            found += made
        return found

    def _ended(self, snapshot_id: int) -> Sequence[pa.RecordBatch]:
        """The vertices of the new plan that have ended. A vertex without state, with the name and
        signature of one that had ended, may have an input now that has not ended."""
        batches = self._store.read(snapshot_id, ENDED)
        if dict(self._signatures[0]) == dict(self._signatures[1]):
            return batches
        names = [name for batch in batches for name in batch.column(0).to_pylist()]
        with_state = {
            vertex
            for vertex, items in self._outcomes.items()
            if all(item.source in names for item in items)
        } - self._repeated
        ended = {
            name for name in names if name not in self._names and self._is_same(name, name)
        } - self._repeated
        # A vertex has ended only if all its inputs have: repeat until no more vertex is removed.
        left = len(ended) + 1
        while len(ended) < left:
            left = len(ended)
            ended = {
                name
                for name in ended
                if all(edge.source in ended | with_state for edge in self._dag.inputs(name))
            }
        found = pack(sorted(ended | with_state), VARCHAR)
        return [pa.record_batch([found], names=["vertex"])] if len(found) else ()

    def _is_as_it_was(self, outcome: VertexOutcome) -> bool:
        is_moved = (
            outcome.crosses_stages
            or bool(outcome.columns)
            or any(number != now for number, now in outcome.watermarks)
        )
        return not is_moved and self._is_same(outcome.source, outcome.vertex)

    def _is_same(self, source: str, vertex: str) -> bool:
        """Whether an old and a new vertex compute the same."""
        before, after = self._signatures[0].get(source), self._signatures[1].get(vertex)
        if before is None or after is None:
            return before is after and vertex in self._dag.vertices
        return StateSignature.decode(before).text == StateSignature.decode(after).text


def encoded_signatures(signatures: Mapping[str, str]) -> list[VertexState]:
    """The state signatures of the vertices, as stored in each snapshot."""
    if not signatures:
        return []
    columns = [pack(list(signatures), VARCHAR), pack(list(signatures.values()), VARCHAR)]
    return [(SIGNATURES, pa.record_batch(columns, names=["vertex", "meaning"]))]


def signatures_in(store: StateReader, snapshot_id: int) -> dict[str, str]:
    """The state signatures in a snapshot, by vertex; empty if an earlier version took it."""
    batches = store.read(snapshot_id, SIGNATURES)
    return {
        vertex: text
        for batch in batches
        for vertex, text in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    }
