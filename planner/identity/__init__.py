"""The identity of state: the texts by which a changed job finds its vertices and state again.

Imports `planner/physical`, `planner/lower`, `engine/relation`, `engine/expressions`,
`engine/columns`, `engine/processors/sources` and the contracts.

Begin with `vertices.state_signatures`, the state signature of each vertex of a plan. `nodes` and
`expressions` write its texts, version 1, which are stored with snapshots and never change.
"""
