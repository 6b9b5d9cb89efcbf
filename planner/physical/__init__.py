"""Physical plans: the operators chosen for a relation, before lowering.

Imports `planner/event_time`, `planner/estimates.py`, `planner/rewriting.py`, `engine/relation`,
`engine/expressions`, `engine/foreign`, the contracts, and `engine/processors` for what the
operators can do.

Begin with `nodes` and `stream_nodes`, one class per operator, then `choose`: fusion and
indexes. `key_lookup` answers a query by key without a job; `stream_aggregates` and
`stream_windows` choose for streams.
"""
