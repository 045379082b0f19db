"""An archive in a bucket of S3, GCS or Azure, reached by obstore (extra `archive`).

Address, region and credentials come from the environment, as other programs take them: AWS_*, GOOGLE_*,
AZURE_*. obstore repeats a request that failed; what still fails then is an OSError. Nothing imports this
unless an archive has `://` in its name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from azselfplay.host.exits import Exit, Fatal

SCHEMES = ("s3", "gs", "az")
CONNECT_SECONDS, REQUEST_SECONDS, RETRY_SECONDS, RETRIES = 5.0, 60.0, 15.0, 3
"""Until a bucket counts as away: to connect, for one request, and for all tries of one."""
_REFUSED = re.compile(r"status code: 4(?!08|29)\d\d|redirect without LOCATION|must be specified")
"""In obstore's text of an error that will stay. 408 and 429 mean "later"."""
_NO_CREDENTIALS = re.compile(r"169\.254\.169\.254|metadata\.google|must be specified")
"""Without credentials obstore asks the cloud's own machine for some."""


class Bucket:
    """The objects below a URL such as s3://BUCKET/RUN."""

    def __init__(self, url: str) -> None:
        """Raises Fatal(USAGE) if the URL is none or the bucket refuses to be written, Fatal(TRY_AGAIN) if it
        does not answer."""
        if url.partition("://")[0] not in SCHEMES:
            text = (
                f"--archive {url}: give a folder, or s3://BUCKET/RUN, gs://BUCKET/RUN or az://CONTAINER/RUN"
            )
            raise Fatal(text, Exit.USAGE)
        try:
            with self._asked():
                self._store: Any = obstore.store.from_url(
                    url,
                    client_options={
                        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                        "timeout": timedelta(seconds=REQUEST_SECONDS),
                        "allow_http": True,  # for an address that the user has set so
                    },
                    retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
                )
            self.put("writable", b"")
            self.remove("writable")
        except OSError as error:
            why = str(error.__cause__)
            if _NO_CREDENTIALS.search(why):
                todo = (
                    "the environment lacks credentials, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                )
            elif _REFUSED.search(why) or isinstance(error.__cause__, (FileNotFoundError, PermissionError)):
                todo = "check bucket, region and rights (AWS_REGION and the like in the environment)"
            else:
                text = f"the archive {url} does not answer: {error}; check the network, or start again later"
                raise Fatal(text, Exit.TRY_AGAIN) from error
            raise Fatal(f"--archive {url} cannot be written: {error}; {todo}", Exit.USAGE) from error

    def create(self, name: str, data: bytes) -> bool:
        with self._asked():
            try:
                # In one request: only that can be refused for a name that is there.
                obstore.put(self._store, name, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def put(self, name: str, data: bytes) -> None:
        with self._asked():
            obstore.put(self._store, name, data)

    def get(self, name: str) -> bytes | None:
        with self._asked():
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except FileNotFoundError:
                return None

    def names(self, under: str) -> list[str]:
        with self._asked():
            pages = obstore.list(self._store, f"{under}/")
            return sorted(one["path"].removeprefix(f"{under}/") for page in pages for one in page)

    def remove(self, name: str) -> None:
        with self._asked(), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, name)

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            # What the server says in XML, or the first line; then come Rust's own details.
            said = re.search(r"<Message>(.*?)</Message>", str(error))
            raise OSError(said[1] if said else str(error).partition("\n")[0].strip()) from error
