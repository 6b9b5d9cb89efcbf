"""Live queries: the plan of a query whose changes are emitted.

`maintenance` rewrites the relation after the rules: operators over rows without an end become
operators that maintain their result, and rows that change get a column of weights. The rules for
each node are in the homes (`planner/operators/passes.py::MAINTENANCE`).

`views` plans materialized views.

It imports `operators.passes`, `physical`, `event_time`, `explain`, `parse.syntax`,
`parse.query.query_end`, `parse.session`, `rewriting`, `rules.column_pruning`, `statement_time`,
`bind.query`, `bind.streams.change_logs`, `optimize`, `plans` and `planning`, and of the engine the
relational nodes, `processors/live/tables` and `processors/live/views`. Begin with `maintenance`.
"""
