"""EXPLAIN: plans as text, graph or JSON, and DDL as text.

Imports `planner/operators/passes.py`, `planner/physical`, `planner/plans.py`, `scope` of
`planner/bind`, `written` of `planner/parse/flink`, `planner/live/change_kinds.py`,
`engine/relation`, `engine/expressions`, `engine/processors/sources` and the contracts.

Begin with `explain.explain`, then `nodes.describe`: the title and properties of each node, from
the homes in `planner/operators`, and `nodes.describe_state`. `redaction` removes secrets from
OPTIONS.
"""
