"""Relational nodes: a bound query as values, before an operator is chosen.

Imports the engine's basics, `catalog` and `expressions`; `foreign` and `processors` for type
checkers only. Planner, fragments and connectors share these nodes.

Begin with `nodes`: `Relation`, its subclasses, and `walk` and `transform`. `streams` adds event
time and emission, `over` window functions, `subqueries` correlation and recursion;
`changing_tables` is the contract of tables that are known by a log, `live` has the nodes of live
queries; `state_identity` identifies the state of a vertex across versions of a query.
"""
