"""JSON functions: paths, predicates, members, and constructors.

Imports the engine's basics, the files of `engine/expressions`, `kernels` and `casts`, and
single files of `nested` and `text`.

Begin with `path.compile_path`, the JSON path language, then `functions` (JSON_VALUE,
JSON_QUERY, JSON_EXISTS). `text` parses and writes JSON without loss; `build` constructs,
`members` extracts.
"""
