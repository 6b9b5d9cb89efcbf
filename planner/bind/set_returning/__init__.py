"""Set-returning functions: UNNEST in a select list, and GENERATE_SERIES and GENERATE_STREAM.

Imports `planner/bind`, `planner/parse`, and the engine's expressions and relations.

`series` binds GENERATE_SERIES and GENERATE_STREAM, which FROM uses too; `select_list` binds sets
among the expressions of a SELECT. (UNNEST in FROM is in `planner/bind/tables/from_clause.py`.)
"""
