"""Arguments by name, and parameters in percent style: the rarer forms of `execute`.

Imports `engine/statements`, `engine/session`, `parse` and `plans` of the planner, the engine's
expressions and relations, and the contracts.

Begin with `by_name`: a dictionary becomes values in the order of the parameters. `percent` runs
statements with `%s` on another engine. `prepared` has PREPARE and EXECUTE.
"""
