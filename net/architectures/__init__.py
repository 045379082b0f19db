"""The networks: one module a family, heads that all families share, and a registry that knows their names.

`registry` is read by every command that checks a name, so it imports torch only to build a network.
"""
