"""Queries and scalar expressions: from tokens to checked sqlglot trees.

Imports `planner/parse`, `intervals` of `planner/bind/scalars` and the engine's basics.

Begin with `query.parse_query`: one pass over the tokens (`token_pass`) runs the rules of the table
`clauses.CLAUSES`, sqlglot parses the tokens that it writes, and the tree is checked against
`allow_list`. The rules are in `rules`, `table_arguments`, `json_clauses` and `query_end`.
"""
