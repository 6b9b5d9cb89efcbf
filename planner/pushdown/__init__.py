"""Sub-plans that another engine runs, and the filters that narrow them.

Imports `planner/physical`, `planner/rules`, `planner/estimates.py`, `planner/rewriting.py`,
`engine/foreign`, `engine/relation`, `engine/expressions` and the contracts.

Begin with `fragments.with_fragments`: the largest sub-plans that an engine accepts; it
chooses the side of a join that moves. `split_plans` and `partial_aggregation` push down a part of a
plan, and `dynamic_filters` narrows a fragment to the keys of a join.
"""
