"""Binding of scalar expressions: sqlglot nodes become typed expressions.

Imports `planner/bind`, its `grouping`, `planner/parse/query`, two files of `planner/parse`
(`tokens`, `types`), `engine/expressions` and `engine/relation`; for DDL text one file of
`planner/explain`.

Begin with `expression.ExpressionBinder`: one method per kind of node. The other files are
families: `json`, `intervals`, `quantified`, `row_comparison`; `special` has the
rare ones and is loaded on first use. `macro_table` has the functions that stand for others, and
`macros` expands their calls.
"""
