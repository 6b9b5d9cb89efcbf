"""TYPE Delta: Delta Lake tables of the local file system.

Imports `connectors/lake`, `connectors/files`, `options` and `confined_path` of `connectors`,
and the engine's contracts and `expressions`. The library deltalake is imported on first use.

Begin with `connector`, then `log` (versions, schema and files of a version). `commit` appends:
it lays out files and writes the commit that also records a job's epoch.
"""
