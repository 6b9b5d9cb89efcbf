"""Functions on VARCHAR, VARBINARY and UUID, with patterns.

Imports the engine's basics, `columns`, the files of `engine/expressions`, `kernels` and
`casts`, and two files of `nested`.

Begin with `strings`: positions count characters, from 1. `patterns` has LIKE and the common
regular expressions, `regexps` and `regex_matches` the rest, `regex_syntax` checks what RE2
accepts. `binary` and `uuids` stand alone; rare functions are in `rare_strings`.
"""
