"""File formats with types of their own: Parquet, Arrow IPC and Avro.

Imports `connectors/files` (the format contract, options, storage), `connectors/comparisons.py`
and the engine's contracts and `expressions`. The text formats are not imported.

Begin with `format`: a file is read as chunks that can be skipped and divided among partitions.
`parquet` is the fullest example; `row_groups` skips row groups by their statistics.
"""
