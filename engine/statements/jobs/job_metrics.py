"""The rows of information_schema.job_metrics: the metrics of each processor of each job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from runnel.runtime.metrics import VertexMetrics, metric_values

if TYPE_CHECKING:
    from runnel.results.rows import Row
    from runnel.session.session import Session


def metric_rows(session: Session) -> list[Row]:
    """The rows that the caller of the session may see: of all named jobs, and of the running light
    jobs, for callers other than the owner only light jobs of such callers.

    The metrics of a named job belong to its execution, or to its last one. The statement that
    reads the table is not among the light jobs, because it has not started yet.
    """
    rows: list[Row] = []
    if session.has_named_jobs:
        for job in session.named_jobs.all():
            head = (job.record.id, job.record.name, job.kind, str(job.record.status))
            rows += _rows(head, job.metrics())
    for light in session.light_jobs.running():
        if light.kind != "job" and (session.caller.is_owner or light.options.is_confined):
            head = (light.id, light.name, light.kind, str(light.status))
            rows += _rows(head, light.metrics())
    return rows


def _rows(head: Row, metrics: Mapping[str, VertexMetrics]) -> Iterator[Row]:
    for vertex in metrics.values():
        for processor in vertex.processors:
            for name, value in metric_values(processor):
                yield (*head, vertex.vertex, processor.index, name, value)
