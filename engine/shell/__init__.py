"""The command `runnel`: SQL from arguments, files and pipes, and an interactive session.

Uses connections and cursors as any program does, by the public package alone. prompt_toolkit,
Pygments and rich belong to the extra `runnel[shell]`; without them the session is a plain one.

Imports the public package, `results` for printing, `planner/parse` to divide a script into
statements and to read COPY, and `serving`, to which it passes `runnel serve` and `runnel backup`.
Begin with `command`, then `shell`.
"""
