"""Queries and scalar expressions: from tokens to checked sqlglot trees.

Imports `planner/parse`, `intervals` of `planner/bind/scalars` and the engine's basics.

`copies` reads COPY TO, which has a query, and COPY FROM. Begin with the table `clauses.CLAUSES` and
with `query.parse_query`, which has four steps:

1. One pass over the tokens (`token_pass`) runs the rules of the table. They are in `rules`,
   `table_arguments`, `json_clauses` and `query_end`.
2. sqlglot parses the tokens that the rules wrote.
3. `shapes.finish` changes sqlglot's tree into the tree that the binder reads.
4. One pass over the tree (`allow_list`) refuses every node and argument that the table does not
   list.
"""
