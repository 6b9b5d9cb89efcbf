"""The prompt of the extra `runnel[shell]`: multi-line editing, history, completion and colours by
prompt_toolkit and Pygments.

Imports the rest of `shell` and the public package; only `shell/interactive` imports it, on first
use, because the packages need not be installed. Begin with `prompt`.
"""
