"""TYPE Nexmark: the events of the NEXMark benchmark, computed as they are read.

Imports `connectors/options.py` and the engine's basics, contracts and `columns`.

Begin with `connector` for the mapping and its options. `events` computes any event from its
number; `source` sets order, partitions and rate. `random_numbers` makes every value depend on
seed and event number alone, so that a reader can start at any offset.
"""
