"""The Python code of a job: modules, packages and archives whose sources are stored with it, and
which only this job sees.

Imports `access`, `errors`, `expressions` and of `session` the check of functions.

Begin with `isolated.JobCode`; `sources.read_sources` reads what the option 'modules' names.
"""
