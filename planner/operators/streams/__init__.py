"""The homes of operators that only streams have.

Imports are as in `planner/operators`. Begin with `time_windows`: watermarks, and the windows that
assign rows to time spans.
"""
