"""The user's home folder: caches, keys and finished games are below it by default. It is not in `host`,
because games need it too."""

from pathlib import Path


class NoHome(Exception):
    """This user has no home folder."""


def home() -> Path:
    """Return the home folder. Raises NoHome, for example in a container whose user is only a number."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise NoHome("this user has no home folder: set HOME to a folder that can be written") from error
