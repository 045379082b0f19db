"""Weights from a web server: one GET of a file that is served out of a run's folder `weights/`.

The client uses asyncio's streams. The standard library's HTTP client blocks, and a thread that hangs in it
cannot be ended; an HTTP package would be one more to install for every player. So this client requests one
file of known size, and accepts nothing else: no redirect (the web server could send players anywhere), no
chunked encoding, no compression. Any other answer is an error, and the file comes from azserver instead.
`link.weights_pull` checks the hash, which alone makes the bytes acceptable, and the timeouts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from azselfplay.link.weights_files import weights_path
from protocol.messages import CHUNK, WeightsInfo

_ADDRESS = re.compile(r"https?://[!-~]+")
"""Visible ASCII only: nothing in it can end a line of the request."""
_HEAD = re.compile(rb"HTTP/1\.[01] ([0-9]{3}[^\r\n]*)\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+) *\r\n", re.IGNORECASE)


def check_url(url: str) -> None:
    """Raise ValueError if `url` is not the address of a folder on a web server."""
    parts = urlsplit(url)
    # A file's name is appended to the address, and every player sees it: it must not hold a password.
    is_plain = parts.hostname and not (parts.query or parts.fragment or "@" in parts.netloc)
    # Reading `parts.port` raises ValueError for a port above 65535.
    if not (_ADDRESS.fullmatch(url) and is_plain and parts.port != 0):
        raise ValueError(
            f"{url!r} is no folder on a web server: give http:// or https://, a host and a path, without a "
            "password, a query or a fragment"
        )


async def read_file(
    url: str, info: WeightsInfo, on_piece: Callable[[int, bytes], bool], on_bytes: Callable[[], None]
) -> None:
    """Read the file of these weights from the folder at `url`, and call `on_piece(offset, data)` for each
    `CHUNK` bytes of it, in order, until it returns False; `on_bytes()` whenever bytes have come. Raises
    ValueError if something else comes, OSError if the network fails."""
    check_url(url)
    parts = urlsplit(url)
    host, is_tls = parts.hostname, parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    path = f"{parts.path.rstrip('/')}/{weights_path(Path(), info).name}"
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept-Encoding: identity\r\nConnection: close"
    reader, writer = await asyncio.open_connection(host, port, ssl=is_tls or None, limit=CHUNK)
    try:
        writer.write(f"{request}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        answer, length = _HEAD.match(head), _LENGTH.search(head)
        if answer is None or not answer[1].startswith(b"200"):
            raise ValueError(f"the answer is {(answer[1] if answer else head)[:60].decode('latin-1')!r}")
        # With this length, the bytes that follow are the whole file.
        if length is None or int(length[1]) != info.size:
            size = "no length" if length is None else f"{int(length[1])} bytes"
            raise ValueError(f"the file there has {size} instead of {info.size}")
        for offset in range(0, info.size, CHUNK):
            piece, wanted = bytearray(), min(CHUNK, info.size - offset)
            # Not `readexactly`: on a slow line, a whole chunk takes longer than a server may be silent.
            while len(piece) < wanted:
                if not (part := await reader.read(wanted - len(piece))):
                    raise ValueError(f"the answer ends early, after {offset + len(piece)} bytes")
                piece += part
                on_bytes()
            if not on_piece(offset, bytes(piece)):
                return
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ValueError(f"the answer ends early: {error}") from error
    finally:
        # Not `close`, which waits for a peer that may hang.
        writer.transport.abort()
