"""Ready-made processors for hand-built DAGs: sources, steps and sinks.

Imports the contracts `connector`, `processor` and `dag`, `columns`, `expressions`, `relation`, and
of `processors` the folders `grouping`, `joins`, `sessions`, `sinks`, `sorting`, `sources`,
`stateful` and `time_windows`, and `calc`.

Begin with `steps`: `source_of`, `map_batches`, `filter_rows`, `sink_to_list` and their neighbours.
`by_key` aggregates by key with the operations of `aggregate_operation`. `mappings` reads, writes
and looks up the mappings of a connection. `windows` aggregates by windows of event time;
`joins` and `ordering` join, sort and remove duplicates.
"""

from __future__ import annotations

from runnel.processors.library.aggregate_operation import (
    AggregateOperation,
    averaging,
    counting,
    maximum,
    minimum,
    summing,
    to_list,
)
from runnel.processors.library.by_key import accumulate_by_key, aggregate_by_key, combine_by_key
from runnel.processors.library.co_group import co_group
from runnel.processors.library.joins import hash_join
from runnel.processors.library.mappings import (
    map_using_lookup,
    read_journal,
    read_mapping,
    write_mapping,
)
from runnel.processors.library.ordering import distinct_rows, sort_rows, top_rows
from runnel.processors.library.steps import (
    filter_rows,
    flat_map,
    map_batches,
    sink_to,
    sink_to_list,
    source_of,
)
from runnel.processors.library.windows import (
    WindowDefinition,
    accumulate_by_pane,
    aggregate_by_session,
    aggregate_by_window,
    combine_by_window,
    insert_watermarks,
    sliding,
    tumbling,
)
from runnel.processors.sinks.result_queue import result_sink

__all__ = [
    "AggregateOperation",
    "WindowDefinition",
    "accumulate_by_key",
    "accumulate_by_pane",
    "aggregate_by_key",
    "aggregate_by_session",
    "aggregate_by_window",
    "averaging",
    "co_group",
    "combine_by_key",
    "combine_by_window",
    "counting",
    "distinct_rows",
    "filter_rows",
    "flat_map",
    "hash_join",
    "insert_watermarks",
    "map_batches",
    "map_using_lookup",
    "maximum",
    "minimum",
    "read_journal",
    "read_mapping",
    "result_sink",
    "sink_to",
    "sink_to_list",
    "sliding",
    "sort_rows",
    "source_of",
    "summing",
    "to_list",
    "top_rows",
    "tumbling",
    "write_mapping",
]
