"""A plain file server, like `python -m http.server`, in a thread of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class FileServer:
    url: str
    answers: list[tuple[str, int]] = field(default_factory=list)
    """The path of each request and the code of its answer."""


@contextmanager
def file_server(folder: Path) -> Iterator[FileServer]:
    """Serve the files in `folder`, which need not exist yet, until the block ends."""

    class Handler(SimpleHTTPRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002
            served.answers.append((self.path, int(code)))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    served = FileServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
