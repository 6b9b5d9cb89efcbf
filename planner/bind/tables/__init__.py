"""The tables of FROM: mappings, views, common tables, subqueries and table functions, and joins.

Imports `planner/bind` and its folders, `planner/parse`, `ddl` of `planner/explain`,
`constant_folding` of `planner/rules`, `planner/rewriting.py`, the contracts, and the engine's
expressions and relations; of its operators `processors/live/views`.

Begin with `from_clause`. `joins` binds JOIN, `files` and `file_arguments` bind files in a query,
`information_schema` makes its tables from the catalog. A clause that follows a table gets a module
here.
"""
