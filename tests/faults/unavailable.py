"""What a fault raises that cannot be caused on this machine."""


class Unavailable(Exception):
    """The fault cannot be caused here; the text says why."""
