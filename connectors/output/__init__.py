"""TYPE Discard and TYPE Print: sinks without stored rows.

Imports `connectors/options.py` and the engine's basics, contracts and `expressions`.

Begin with `discard`, which counts rows and drops them; `printing` writes them to standard output.
"""
