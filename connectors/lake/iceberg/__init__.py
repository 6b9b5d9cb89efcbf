"""TYPE Iceberg: Iceberg tables of a catalog, or by their metadata file alone.

Imports `connectors/lake`, `connectors/files`, `options` and `comparisons` of `connectors`, and
the engine's contracts and `expressions`. The library pyiceberg is imported on first use.

Begin with `connector`, then `catalog` (finding a table) and `files` (the data files of a
snapshot). `parquet` matches columns by field id; `commit` appends.
"""
