"""Building blocks of kernels: values, buffers, sorting, and failures by row.

Imports the engine's basics, `columns`, and `function`, `nodes` and `context` of
`engine/expressions`; for conversions and UUIDs, on demand, `casts` and `text`.

Begin with `values`: Python values to Arrow and back. `per_value` makes a kernel of a Python
function, `options` one with constant arguments, `canonical` casts incoming data to the Arrow
type of its SQL type, and `failure` finds the row that made a kernel fail.
"""
