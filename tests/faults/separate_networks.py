"""Network namespaces of this machine, joined by a switch, with links that can be cut in one direction or
both.

A namespace lives as long as its holder, a process that the kernel ends with the tests: nothing stays behind.
A cut sends no FIN and no RST: packets in transit are lost, and each end believes that the connection still
exists.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

from scraped import Metrics, scrape
from target import _end_with_us
from unavailable import Unavailable

CLONE_NEWNET = 0x4000_0000
_libc = ctypes.CDLL(None, use_errno=True)
NETWORK = "10.77.0"
NOBODY = "02:00:00:00:00:fe"
"""A hardware address that no interface has: the switch forwards such frames and nobody receives them."""


class Networks:
    """One namespace per name, at 10.77.0.1 and so on, and one for the switch between them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate(names, 1)}
        self._holders: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Networks:
        """Raises Unavailable, leaving nothing behind."""
        try:
            for name in ("switch", *self.addresses):
                self._holders[name] = _holder()
            self._join()
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
            raise Unavailable(f"no network namespaces here: {said}") from error
        return self

    def __exit__(self, *_: object) -> None:
        for holder in self._holders.values():
            holder.kill()
            holder.wait()
        self._holders.clear()

    def _join(self) -> None:
        self._ip("switch", "link add bridge type bridge")
        self._ip("switch", "link set bridge up")
        for name, address in self.addresses.items():
            here = self._holders[name].pid
            self._ip("switch", f"link add {name} type veth peer name eth0 netns {here}")
            self._ip("switch", f"link set {name} master bridge")
            self._ip("switch", f"link set {name} up")
            self._ip(name, "link set lo up")
            self._ip(name, f"address add {address}/24 dev eth0")
            self._ip(name, "link set eth0 up")

    def _ip(self, name: str, words: str) -> None:
        subprocess.run(self.inside(name, ["ip", *words.split()]), check=True, capture_output=True, text=True)

    def inside(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the command line that runs `command` in this namespace."""
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net", "--", *command]

    def scrape(self, name: str, port: int) -> Metrics:
        """Return the metrics of a process that serves them on the loopback address of this namespace."""
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        with self._entered(name), suppress(OSError):
            connection.connect()  # a socket stays in the namespace where it was made
        return scrape(port, connection) if connection.sock is not None else {}

    @contextmanager
    def _entered(self, name: str) -> Iterator[None]:
        """Move this thread into the namespace for a block."""
        with (
            Path("/proc/thread-self/ns/net").open() as home,
            Path(f"/proc/{self._holders[name].pid}/ns/net").open() as there,
        ):
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    # ---- links -------------------------------------------------------------------------------

    def cut(self, name: str) -> None:
        """Cut all traffic to and from `name`."""
        self._ip("switch", f"link set {name} down")

    def half_cut(self, sender: str, receiver: str) -> None:
        """Lose everything that `sender` sends to `receiver`; the other direction works."""
        self._ip(sender, f"neigh replace {self.addresses[receiver]} lladdr {NOBODY} dev eth0 nud permanent")

    def mend(self) -> None:
        """Restore all links, in both directions."""
        for name in self.addresses:
            self._ip("switch", f"link set {name} up")
            self._ip(name, "neigh flush dev eth0 nud permanent")


def _enter(namespace: int) -> None:
    """Move this thread to a network namespace, given as an open file."""
    if _libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _holder() -> subprocess.Popen[bytes]:
    """Start a process that sleeps in a network namespace of its own."""
    ours = Path("/proc/self/ns/net").readlink()
    holder = subprocess.Popen(
        ["unshare", "--net", "sleep", "infinity"], stderr=subprocess.PIPE, preexec_fn=_end_with_us
    )
    while Path(f"/proc/{holder.pid}/ns/net").readlink() == ours:
        if holder.poll() is not None:
            said = holder.stderr.read().decode() if holder.stderr else ""
            raise OSError(said.strip() or "unshare --net failed")
        time.sleep(0.01)
    return holder
