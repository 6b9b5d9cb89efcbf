"""TYPE DataGen: rows of random values and of sequences, computed from their numbers.

Imports `random_numbers` of `connectors/nexmark` and `definitions` of `connectors/output`, and no
other connector. Begin with `connector`, which reads the options; `fields` has the options of each
column, `values` makes the arrays, `source` emits rows at a rate.
"""
