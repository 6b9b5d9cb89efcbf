"""ARRAY, ROW and MAP: constructors, access, and functions on them.

Imports the engine's basics, `columns`, the files of `engine/expressions`, its `kernels`, and
one file of `casts`.

Begin with `construct`: literals and subscripts, which count from 1. `lists` has the functions
on arrays; `list_values` has the ones that compare or sum elements; `maps` has the ones on maps.
"""
