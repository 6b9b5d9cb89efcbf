"""Aggregate functions: binding, partial states, and final values.

Imports the engine's basics, `columns`, the files of `engine/expressions`, its `kernels`, and
one file each of `numbers` and `python`.

Begin with `function.AggregateFunction`, then `registry` (lookup by name) and `states`: each
state is vectorized over groups and can be combined across stages. `ordered` and `quantiles`
need the rows of a group in order; `window_functions` are the functions that require OVER.
"""
