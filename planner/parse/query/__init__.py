"""Queries and scalar expressions: from tokens to checked sqlglot trees.

Imports `planner/parse`, `intervals` of `planner/bind/scalars` and the engine's basics.

Begin with `query.parse_query`: tokens are rewritten (`rewrite_tokens`), checked
(`check_tokens`), parsed by sqlglot, and the tree is checked against `allow_list`. The other
files add clauses that sqlglot doesn't parse, such as `emission` and `table_arguments`.
"""
