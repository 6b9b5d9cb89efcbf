"""Files that COPY … TO writes.

Imports `connectors/files` (formats, options, sinks), `hive`, the options that COPY FROM shares, and
the engine's basics and contracts.

Begin with `copied_file`, which writes one file; `copied_folder` writes the files of a folder.
`new_format` reads the options of both, `new_names` makes the names in a folder.
"""
