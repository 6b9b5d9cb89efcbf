"""Arithmetic and functions on numbers, with exact DECIMALs.

Imports the engine's basics, `columns`, the files of `engine/expressions`, `kernels` and
`casts`, and one file of `time`.

Begin with `arithmetic`, then `decimals`: the table of result types and the kernels that follow
it. `mathematics` and `rounding` have the common functions, `integers` the rarer ones.
"""
