"""TYPE Spark: data that a Spark session reads and writes, as tables.

Imports its folders `session` and, on first use, `fragments`; `sink` of `connectors/lake`,
`table` of `connectors/pushed`; of the engine the contracts, `expressions`, `foreign`,
`columns`, `relation`, `rendering`, `storage` and `engine/duckdb/errors.py`. pyspark is imported on
first use only.

Begin with `connector` and `table`. `source` runs a scan or fragment and returns Arrow batches;
`sink` and `versioned_sink` write; `types` maps types. docs/design/006-spark.md has the design.
"""
