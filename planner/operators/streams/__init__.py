"""The homes of operators that only streams have.

The rules for imports are the ones of `planner/operators`. Begin with `time_windows`: watermarks,
and the windows that assign rows to spans of time.
"""
