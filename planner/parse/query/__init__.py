"""Queries and scalar expressions: from tokens to checked sqlglot trees.

Imports `planner/parse`, `intervals` of `planner/bind/scalars` and the engine's basics.

Begin with the table `clauses.CLAUSES` and with `query.parse_query`: one pass over the tokens
(`token_pass`) runs the rules of the table, sqlglot parses the tokens that it writes,
`shapes.finish` turns its tree into the one that the binder reads, and one pass over the tree
(`allow_list`) refuses all that the table does not list. The rules are in `rules`,
`table_arguments`, `json_clauses` and `query_end`.
"""
