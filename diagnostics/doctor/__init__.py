"""`azclient doctor` and `azserver doctor`: what keeps a part from doing its work, and what to do about it.

Facts are gathered in one place (`machine`, `probe`), and what they mean is said in another, by pure functions
from facts to findings (`machine`, `service`). docs/doctor.md lists all checks.
"""
