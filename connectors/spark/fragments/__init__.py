"""Query fragments on Spark: a sub-plan as one query in Spark's SQL.

Imports `connectors/spark` and its `session`, `engine/rendering`, `engine/foreign`,
`engine/relation`, `engine/expressions`, the contracts, and two files of `engine/processors`;
`connectors/spark/jobs` only where the engine object returns its job runtime.

Begin with `engine.SparkEngine`, the fragment contract for Spark. `inputs` ships small foreign
tables with a query, `filtered_rows` reduces a fragment to the keys of a join, and `differences`
lists the known deviations that EXPLAIN shows.
"""
