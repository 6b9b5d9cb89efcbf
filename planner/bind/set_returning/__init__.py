"""Set-returning functions: UNNEST, GENERATE_SERIES and GENERATE_STREAM.

Imports `planner/bind`, `planner/parse`, and the engine's expressions and relations.

Begin with `select_list`, which binds set-returning functions among the expressions of a SELECT.
`series` binds GENERATE_SERIES and GENERATE_STREAM, also for FROM; `unnest` binds UNNEST in FROM.
"""
