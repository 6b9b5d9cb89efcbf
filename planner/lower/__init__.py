"""Lowering: from physical operators to the vertices and edges of a DAG.

Imports `planner/physical`, `engine/processors` with its folders, the contracts,
`engine/relation` and `engine/expressions`.

Begin with `lower.lower`, one rule per physical node, and `dag_builder.Lowering`, the DAG under
construction. `aggregates`, `streams` and `shared` have rules of one family.
"""
