"""The identity of state: the texts by which a changed job finds its vertices and state again.

Imports `planner/physical`, `planner/lower`, `engine/relation`, `engine/expressions`,
`engine/columns` and the contracts.

Begin with `vertices.state_signatures`, the identity of each vertex of a plan. `nodes` and
`expressions` spell it, version 1: their texts are stored with snapshots and never change.
"""
