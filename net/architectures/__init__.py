"""The networks: one module per family, heads that all families share, and a registry of their names.

Every command that checks a name imports `registry`, so that module imports torch only to build a network.
"""
