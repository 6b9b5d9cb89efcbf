"""Binding of aggregates, GROUPING SETS and OVER.

Imports `planner/bind`, its `scalars`, `planner/parse/query`, `engine/expressions` with its
aggregates, and `engine/relation`.

Begin with `aggregate.AggregateBinder`, which collects the aggregate calls of a SELECT.
`grouped_scope` has the columns visible above GROUP BY, `grouping_sets` the sets of keys, and
`over` the frames and named windows.
"""
