"""States of groups as arrays by the number of their key.

Imports `columns`, `expressions` with its aggregates, and of `processors` the folders `grouping`,
`joins` and `sources`.

A pane is the state of the groups that end together, such as the groups of one window. The keys of
an operator are numbered once (`key_numbers`), and a pane has an array for each state, with one
element per key number (`pane_columns`). Begin with `open_panes`.
"""
