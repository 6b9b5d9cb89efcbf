"""Lowering: from physical operators to the vertices and edges of a DAG.

Imports `planner/physical`, `engine/processors` with its folders, the contracts,
`engine/relation` and `engine/expressions`.

Begin with `dag_builder.lower` and `dag_builder.Lowering`, the DAG under construction. The rules are
in the homes of the nodes (`planner/operators`); `aggregates`, `streams` and `shared` have long
ones.
"""
