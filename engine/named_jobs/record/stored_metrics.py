"""The stored form of the metrics of an execution that has ended.

A record has room for the metrics of MAX_PROCESSORS processors. If an execution had more, the
metrics of each vertex are stored as a single processor, with sums in place of counts; if it had
more vertices, the ones after the first MAX_PROCESSORS are left out.

For example, `{"vertex": "scan s", "capacity": 0, "processors": [{"index": 0, "rows_out": 12}]}`:
counts of 0 and missing values are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runnel.runtime.latency import LatencyHistogram
from runnel.runtime.metrics import COUNTS, ProcessorMetrics, VertexMetrics

MAX_PROCESSORS = 256
"""Maximum number of processors in a record."""


def metrics_to_json(metrics: Mapping[str, VertexMetrics]) -> list[dict[str, Any]]:
    """JSON values, a dictionary for each vertex."""
    is_divided = sum(len(item.processors) for item in metrics.values()) <= MAX_PROCESSORS
    return [
        {
            "vertex": vertex.vertex,
            "capacity": vertex.queue_capacity,
            "processors": [
                _processor_to_json(item)
                for item in (vertex.processors if is_divided else (_total(vertex),))
            ],
        }
        for vertex in list(metrics.values())[:MAX_PROCESSORS]
    ]


def _total(vertex: VertexMetrics) -> ProcessorMetrics:
    histograms = [item.latency for item in vertex.processors if item.latency is not None]
    latency = LatencyHistogram() if histograms else None
    if latency is not None:
        latency.counts = [
            sum(column) for column in zip(*[h.counts for h in histograms], strict=True)
        ]
    return ProcessorMetrics(
        **{name: getattr(vertex, name) for name in COUNTS},
        index=0,
        state="",
        watermark=vertex.watermark,
        held_by=vertex.held_by,
        latency=latency,
    )


def _processor_to_json(item: ProcessorMetrics) -> dict[str, Any]:
    found: dict[str, Any] = {"index": item.index, "state": item.state}
    found |= {name: getattr(item, name) for name in COUNTS if getattr(item, name)}
    if item.watermark is not None:
        found["watermark"] = item.watermark
    if item.held_by is not None:
        found["held_by"] = item.held_by
    if item.latency is not None:
        found["latency"] = [[n, count] for n, count in enumerate(item.latency.counts) if count]
    return found


def metrics_from_json(values: Sequence[Mapping[str, Any]]) -> dict[str, VertexMetrics]:
    """The metrics that `metrics_to_json` stored; ValueError, KeyError or TypeError if `values` are
    not such metrics."""
    try:
        return {
            value["vertex"]: VertexMetrics(
                value["vertex"],
                tuple(_processor_from_json(item) for item in value["processors"]),
                value["capacity"],
            )
            for value in values
        }
    except (AttributeError, IndexError) as error:
        raise ValueError(f"its metrics are invalid: {error}") from error


def _processor_from_json(value: Mapping[str, Any]) -> ProcessorMetrics:
    latency = None
    if "latency" in value:
        latency = LatencyHistogram()
        for bucket, count in value["latency"]:
            latency.counts[bucket] = count
    return ProcessorMetrics(
        **{name: value.get(name, 0) for name in COUNTS},
        index=value["index"],
        state=value["state"],
        watermark=value.get("watermark"),
        held_by=value.get("held_by"),
        latency=latency,
    )
