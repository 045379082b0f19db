"""Which keys may join this azserver, and what it prints about joining at its start."""

from __future__ import annotations

import logging
import shlex
import socket

from runtime.exits import Exit, Fatal
from runtime.keys import as_text, keys_folder, server_command
from runtime.ports import ANYWHERE, DEFAULT_PORT, LOOPBACK, Address
from server.allowed import Allowed
from server.config import ServerConfig

log = logging.getLogger("azserver")


def open_allowed(config: ServerConfig) -> Allowed | None:
    """Return the allowed keys; None if no keys are used. Raises Fatal(CONFIG) saying how to make them."""
    folder = keys_folder(config.listen, config.keys, insecure=config.insecure)
    if folder is None:
        return None
    try:
        return Allowed(folder)
    except Fatal as error:
        if config.listen in LOOPBACK:
            raise
        text = f"--listen {config.listen} asks for keys, and {error}"
        raise Fatal(f"{text}. --insecure does without, on a network that you trust", Exit.CONFIG) from error


def say_address(config: ServerConfig, allowed: Allowed | None) -> None:
    """Log where to join, with the complete command for another machine."""
    if allowed is not None:
        host = socket.gethostname() if config.listen in ANYWHERE else config.listen
        place = host if config.port == DEFAULT_PORT else Address(host, config.port).server
        key = shlex.quote(as_text(allowed.pair.public))
        allow = server_command(allowed.path.parent, "allow")
        log.info("port %d, for %d allowed keys (%s client NAME KEY)", config.port, len(allowed), allow)
        log.info("to join: azclient --server %s --server-key %s", place, key)
    elif config.listen in LOOPBACK:
        log.info("port %d, for this machine only; --listen 0.0.0.0 lets other machines join", config.port)
    else:
        log.warning(
            "--insecure: port %d is open on %s without keys and encryption; whoever reaches it may join, "
            "send games and act as the trainer",
            config.port,
            config.listen,
        )
