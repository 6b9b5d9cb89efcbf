"""The connectors: how each kind of data is found, read, looked up and written. None knows the planner or the runtime."""

if __name__ != "runnel.connectors":
    raise ImportError('this package is imported as "runnel.connectors": install Runnel, then write "import runnel.connectors"')
