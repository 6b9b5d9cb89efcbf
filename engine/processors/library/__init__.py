"""Ready-made processors for hand-built DAGs: sources, steps and sinks.

Imports the contracts `processor` and `dag`, `columns`, `expressions`, and of `processors` the
folders `grouping`, `sinks` and `stateful`.

Begin with `steps`: `source_of`, `map_batches`, `filter_rows`, `sink_to_list` and their neighbours.
`by_key` aggregates by key with the operations of `aggregate_operation`.
"""

from __future__ import annotations

from runnel.processors.library.steps import (
    AggregateOperation,
    accumulate_by_key,
    aggregate_by_key,
    averaging,
    combine_by_key,
    counting,
    filter_rows,
    flat_map,
    map_batches,
    maximum,
    minimum,
    result_sink,
    sink_to,
    sink_to_list,
    source_of,
    summing,
    to_list,
)

__all__ = [
    "AggregateOperation",
    "accumulate_by_key",
    "aggregate_by_key",
    "averaging",
    "combine_by_key",
    "counting",
    "filter_rows",
    "flat_map",
    "map_batches",
    "maximum",
    "minimum",
    "result_sink",
    "sink_to",
    "sink_to_list",
    "source_of",
    "summing",
    "to_list",
]
