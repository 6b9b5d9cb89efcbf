"""Functions and aggregates that the user wrote in Python.

Imports the engine's basics, `columns`, the files of `engine/expressions`, its `kernels`, and
`function` and `ordered_groups` of `aggregates`.

Begin with `function.PythonFunction` and `PythonCall`, the node of a call. `calls` binds and
evaluates calls and explains failures; `aggregate` collects the rows of each group.
"""
