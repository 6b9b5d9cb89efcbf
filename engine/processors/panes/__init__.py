"""States of groups as arrays by the number of their key.

A pane is the state of the groups that end together, such as the groups of one window. The keys of
an operator are numbered once (`key_numbers`), and a pane has an array for each state, with one
element per key number (`pane_columns`). Levels as in engine/processors; read `open_panes` first.
"""
