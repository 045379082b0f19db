"""`azclient doctor` and `azserver doctor`: find what keeps a part from working, and say what to do about it.

Facts are gathered in one place (`machine`, `probe`) and interpreted in another, by pure functions from facts
to findings (`machine`, `service`). docs/troubleshooting.md lists all checks.
"""
