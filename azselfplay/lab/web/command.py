"""`azplay web [RUNS]`: the runs of a folder as pages in a browser."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal, guarded, require
from azselfplay.host.ports import MAY_PASS, place_to_listen
from azselfplay.link.finding import RUNS, find_run
from protocol.settings import Port, Positive

if TYPE_CHECKING:
    from azselfplay.host.aio import Stop

EXAMPLES = (
    "azplay web                                # the runs in runs/, at http://127.0.0.1:8000",
    "azplay web runs/chess-tiny --port 9000    # begins with the page of this run",
    "azplay web /data/runs --threads 4         # networks that play use four cores",
)
NICE = 5
"""Added to this process's niceness, so that training on this machine has priority."""


@dataclass(frozen=True)
class WebConfig:
    """Web pages about the runs of a folder: live figures, curves, games, and play against any network.

    They are for this machine only unless --listen says otherwise. Nothing is loaded from the internet, and
    nothing in the folder is changed.
    """

    runs: Positional[Path] = RUNS
    """Folder of all runs, or one run: its folder, or its name in runs/."""
    port: Port = 8000
    """Port of the pages; 0: any that is free."""
    listen: str = "127.0.0.1"
    """Address to listen on. 0.0.0.0 shows the pages to everybody who can reach this machine: there is no
    password."""
    threads: Positive = 1
    """CPU threads of each network that plays or evaluates."""


def main() -> int:
    """Entry point. Returns the exit status."""
    config = load(WebConfig, command="azplay web", examples=EXAMPLES)
    runs, page = folder_of(config.runs)
    require("web", "azplay web")
    from azselfplay.host import aio

    # Listen before anything slow, because a port in use is the usual mistake.
    listener = listen(config.listen, config.port)
    os.nice(NICE)
    logging.basicConfig(level=logging.WARNING, format="azplay web: %(message)s")
    logging.getLogger("azselfplay.lab.web").setLevel(logging.INFO)
    # The pages themselves say when an azserver does not answer.
    logging.getLogger("azselfplay.link.connection").setLevel(logging.ERROR)
    aio.run(lambda stop: serve(runs, listener, config, page, stop))
    return int(Exit.OK)


def folder_of(path: Path) -> tuple[Path, str]:
    """Return (the folder of all runs, address of the first page). Raises Fatal(BAD_DATA)."""
    run = find_run(path)
    if run is not None:
        return run.path.parent, f"/run/{run.name}"
    if not path.is_dir():
        raise Fatal(
            f"{path} is neither a folder nor a run; give the folder of your runs, such as runs, or a run's "
            "name, or start a run first (azrun)",
            Exit.BAD_DATA,
        )
    return path, "/"


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket. Raises Fatal(TRY_AGAIN) if the port is in use, or the address is not (or not
    yet) an address of this machine; Fatal(CONFIG) if the address is invalid."""
    try:
        family, place = place_to_listen(address, port)
        listener = socket.socket(family, socket.SOCK_STREAM)
        # Otherwise the port would stay in use for a minute after the last server has ended.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Fatal(
                f"port {port} of {address} is in use, perhaps by another azplay web: give another --port, "
                "or 0 for any that is free",
                Exit.TRY_AGAIN,
            ) from error
        raise Fatal(
            f"cannot listen on {address}, port {port}: {error.strerror or error}; give another --listen or "
            "--port",
            Exit.TRY_AGAIN if error.errno in MAY_PASS else Exit.CONFIG,
        ) from error
    return listener


async def serve(runs: Path, listener: socket.socket, config: WebConfig, page: str, stop: Stop) -> None:
    """Answer until asked to stop."""
    from aiohttp import web

    from azselfplay.lab.web.app import make_app, open_site
    from azselfplay.lab.web.guarding import REQUEST_WITHIN, is_loopback

    host, port = listener.getsockname()[:2]
    async with open_site(runs, config.threads) as site:
        runner = web.AppRunner(
            make_app(site, config.listen),
            access_log=None,
            shutdown_timeout=2.0,
            keepalive_timeout=REQUEST_WITHIN,
        )
        await runner.setup()
        await web.SockSite(runner, listener).start()
        try:
            shown = f"[{host}]" if ":" in host else host
            print(f"http://{shown}:{port}{page}", flush=True)
            if sys.stderr.isatty():  # not if azserver has started it
                print("Ctrl-C ends it; runs go on.", file=sys.stderr, flush=True)
            if not is_loopback(host):
                print(
                    f"azplay web: listening on {host}: everybody who reaches this machine can look at the "
                    f"runs in {runs} and play. There is no password. Browsers reach it by an IP address of "
                    f"this machine, or by the name {socket.gethostname()}.",
                    file=sys.stderr,
                )
            stop.waits_for = "pages that are being answered"
            await stop.finishing.wait()
            # Close the event streams, because open ones would keep the server from ending.
            await site.watching.close()
        finally:
            await runner.cleanup()


if __name__ == "__main__":
    from azselfplay.play.driver import leave_if_preparing

    code = guarded(main)
    leave_if_preparing(code)
    raise SystemExit(code)
