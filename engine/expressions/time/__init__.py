"""Functions and arithmetic on dates, times, timestamps and intervals.

Imports the engine's basics, `columns`, the files of `engine/expressions`, `kernels` and
`casts`, and `patterns` of `to_char`.

Begin with `temporal` (truncation, epochs, zones) and `arithmetic`; `intervals` has the text
form of intervals. `zones_after_2037` extends Arrow's zone tables, which end in 2037.
"""
