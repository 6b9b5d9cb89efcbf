"""Table formats over Parquet files: the code that Delta and Iceberg share.

Imports `connectors/files` with `columnar` and `hive`, `options` and `comparisons` of
`connectors`, and the engine's contracts, `columns` and `expressions`. It imports neither
`delta` nor `iceberg`, which import it.

Begin with `table.LakeTable` (reading one version) and `sink.LakeSink` (Parquet files, then one
commit). `files` prunes data files by statistics; `follow` reads later versions as a stream.
"""
