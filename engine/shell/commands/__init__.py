"""The commands of the shell: lines that begin with "." or a backslash.

Imports the rest of `shell`, `results` for printing, and the public package. Begin with `table`,
which lists them.
"""
