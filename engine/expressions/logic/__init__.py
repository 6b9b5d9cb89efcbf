"""Comparisons, IN, CASE and Boolean logic.

Imports the engine's basics, `columns`, the files of `engine/expressions` and its `kernels`.

Begin with `comparison` (common types and NULL rules), then `conditional`: CASE, COALESCE, AND
and OR evaluate an operand only for the rows that need it. `in_list` is one hash lookup per row.
"""
