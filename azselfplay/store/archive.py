"""A second place for what a trainer must not lose: a folder on another disk or machine, or a bucket.

    run.json                                a copy from the run's folder: says which run's archive this is
    trainers/000000000002                   the current trainer: each start of one takes the next number
    games/000000000001                      the games of one commit, named by the number of the first
    checkpoints/step-000001200.state        the checkpoints of the run's folder (`trainer.checkpoint`)

SQLite stays the index, and training reads from it. A game is first committed to games.db, then archived, and
only then acknowledged. While the archive does not take a game, it is neither acknowledged nor trained on, and
no further game is committed. So the archive has every game that a checkpoint knows, and a trainer on an empty
disk goes on from the newest checkpoint as if nothing had happened. Rejected games are not archived.

Games are only ever added, under a name that must not exist yet. So of two trainers of a run, such as one that
was suspended for an hour and its successor, only one can add the next games; the other one ends.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from azselfplay.host.exits import Exit, Fatal, require
from azselfplay.host.reading import json_in
from azselfplay.host.runs import PARTIAL, reach, shown_settings, sync_folder, write_atomically
from azselfplay.store.rows import Row, Stored
from azselfplay.store.sqlite import Store
from protocol.records import FORMAT, sha256

log = logging.getLogger(__name__)

SECONDS = 1.0
"""Least seconds between two commits: object stores charge for each object, and list many slowly."""
GAMES = 4096
"""Most games of an object."""
ENOUGH_BYTES = 4 << 20
"""Bytes of records after which an object takes no further game: it must go up in one request."""
COMPARED = 10_000
"""Newest games in both the store and the archive that are compared at the start: more than one commit,
because a trainer never stores more than one without archiving it."""
ABANDONED_SECONDS = 600.0
"""Seconds after which an unfinished file counts as that of a writer that was killed."""
READERS = 16
"""Most objects that are read back at once; together they have at most 2 * GAMES games."""
PROGRESS_SECONDS = 30.0
"""Seconds between two lines of the log while games are read back."""
HASH_BYTES = 32
ABOUT = "run.json"
FOLDERS = ("trainers", "games", "checkpoints")
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of a hard link on exFAT, SMB and FUSE."""
_OURS = re.compile(r"[0-9]{12}|step-[0-9]+\.(state|safetensors)")
"""The name of an object in one of these folders."""

SCHEMES = ("s3", "gs", "az")
CONNECT_SECONDS, REQUEST_SECONDS, RETRY_SECONDS, RETRIES = 5.0, 60.0, 15.0, 3
"""Seconds until a bucket counts as away: to connect, for one request, and for all tries of a request."""
_REFUSED = re.compile(r"status code: 4(?!08|29)\d\d|redirect without LOCATION|must be specified")
"""Found in obstore's text of an error that a retry does not cure. 408 and 429 mean "later"."""
_NO_CREDENTIALS = re.compile(r"169\.254\.169\.254|metadata\.google|must be specified")
"""Found if there are no credentials: obstore then asks the cloud's metadata server for some."""
_CLOCK = "RequestTimeTooSkewed"
"""Found if the clock of this machine is minutes off, as it may be until it is set after the boot."""


class Folder:
    """Objects as files of a folder: durable named bytes, each written whole or not at all. They survive a
    power loss, if the disk keeps what it has synced. All methods raise OSError when the place cannot be
    reached."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that does not exist yet. Returns False, and changes nothing, if it does."""
        path = self._file(name)
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # Unlike a rename, a link fails if the name is taken.
            path.hardlink_to(partial)
        except FileExistsError:
            return False
        finally:
            partial.unlink(missing_ok=True)
        sync_folder(path.parent)
        return True

    def put(self, name: str, data: bytes) -> None:
        """Write an object, and replace an existing one."""
        write_atomically(self._file(name), data)

    def get(self, name: str) -> bytes | None:
        """Return the bytes of an object; None if there is none of this name."""
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, under: str, after: str = "") -> list[str]:
        """Return the names of all objects `under/...` that come after `after`, without `under/`, in order.
        What others have put there (a NAS or a desktop does) is not ours, and left alone."""
        with contextlib.suppress(FileNotFoundError):
            found = (one.name for one in (self._path / under).iterdir() if one.name > after)
            return sorted(filter(_OURS.fullmatch, found))
        return []

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        (self._path / name).unlink(missing_ok=True)

    def remove_unfinished(self, new: str) -> None:
        """Remove the files that killed writers have left. `new`: an object made just now; its time is of the
        clock that dates the files, perhaps that of another machine."""
        before = (self._path / new).stat().st_mtime - ABANDONED_SECONDS
        for path in (one for folder in FOLDERS for one in (self._path / folder).glob(f"*{PARTIAL}")):
            # Another trainer may be as far.
            with contextlib.suppress(OSError):
                if _OURS.match(path.name) and path.stat().st_mtime < before:
                    path.unlink()

    def _file(self, name: str) -> Path:
        # Only the first object makes folders: once a mount is gone, nothing may be written below its path.
        if name == ABOUT:
            for folder in FOLDERS:
                (self._path / folder).mkdir(exist_ok=True)
            sync_folder(self._path)
        return self._path / name


class Bucket:
    """The objects below a URL such as s3://BUCKET/RUN, reached by obstore (extra `archive`), with
    the methods of `Folder`.

    Address, region and credentials come from the usual environment variables: AWS_*, GOOGLE_*, AZURE_*.
    obstore repeats a failed request; if that fails too, an OSError is raised.
    """

    def __init__(self, url: str) -> None:
        """Raises Fatal(USAGE) if this is no URL of a bucket or the bucket refuses writes, Fatal(TRY_AGAIN) if
        it does not answer or only the clock is wrong."""
        if url.partition("://")[0] not in SCHEMES:
            text = (
                f"--archive {url}: give a folder, or s3://BUCKET/RUN, gs://BUCKET/RUN or az://CONTAINER/RUN"
            )
            raise Fatal(text, Exit.USAGE)
        # An extra that is slow to import, and needed only for a bucket.
        import obstore.exceptions

        self._obstore: Any = obstore
        try:
            with self._asked():
                self._store: Any = obstore.store.from_url(
                    url,
                    client_options={
                        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                        "timeout": timedelta(seconds=REQUEST_SECONDS),
                        "allow_http": True,  # for an address that the user has set
                    },
                    retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
                )
            # Not the name that another trainer may try at this moment.
            name = f"writable.{secrets.token_hex(4)}"
            self.put(name, b"")
            keeps = not self.create(name, b"")
            self.remove(name)
        except OSError as error:
            why = str(error.__cause__)
            if _CLOCK in why:
                text = f"the archive {url} refuses this machine's clock: {error}; set the clock"
                raise Fatal(text, Exit.TRY_AGAIN) from error
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
        if not keeps:
            text = (
                f"--archive {url}: this store ignores `If-None-Match: *`, so two trainers could overwrite "
                "each other's games; use another store"
            )
            raise Fatal(text, Exit.USAGE)

    def create(self, name: str, data: bytes) -> bool:
        with self._asked():
            try:
                # In one request: only a single request can be refused because the name exists.
                self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
            except self._obstore.exceptions.AlreadyExistsError:
                return False
            return True

    def put(self, name: str, data: bytes) -> None:
        with self._asked():
            self._obstore.put(self._store, name, data)

    def get(self, name: str) -> bytes | None:
        with self._asked():
            try:
                return bytes(self._obstore.get(self._store, name).bytes())
            except FileNotFoundError:
                return None

    def names(self, under: str, after: str = "") -> list[str]:
        with self._asked():
            pages = self._obstore.list(self._store, f"{under}/", offset=f"{under}/{after}")
            found = (one["path"].removeprefix(f"{under}/") for page in pages for one in page)
            return sorted(filter(_OURS.fullmatch, found))

    def remove(self, name: str) -> None:
        with self._asked(), contextlib.suppress(FileNotFoundError):
            self._obstore.delete(self._store, name)

    def remove_unfinished(self, new: str) -> None:
        """Do nothing: a bucket has only whole objects."""

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            # The server's message in its XML, or the first line: the lines after it are details of Rust.
            said = re.search(r"<Message>(.*?)</Message>", str(error))
            raise OSError(said[1] if said else str(error).partition("\n")[0].strip()) from error


def open_archive(place: str, runs: Path | None = None) -> Archive | None:
    """Return the archive at `place`, a folder or the URL of a bucket; None for "".

    Raises Fatal(USAGE) unless it exists and can be written: a folder made here would be on the local disk if
    the other disk is not mounted. Raises Fatal(CONFIG) without the extra for buckets, and Fatal(TRY_AGAIN)
    for a bucket that does not answer, or a folder that a run below `runs` has used before.
    """
    if not place:
        return None
    if "://" in place:
        require("archive", f"--archive {place}")
        return Archive(Bucket(place), place)
    if not (Path(place).is_dir() and os.access(place, os.W_OK | os.X_OK)):
        text = f"--archive {place} is no folder that can be written: mount its disk, or make the folder"
        # Any run counts, because the name of ours may come only with WELCOME.
        settings = map(shown_settings, runs.glob("*/trainer.toml") if runs else ())
        is_known = any(one.get("archive") == place for one in settings)
        raise Fatal(text, Exit.TRY_AGAIN if is_known else Exit.USAGE)
    folder = Folder(Path(place))
    try:
        folder.create("writable", b"")
        folder.remove("writable")
    except OSError as error:
        # A full disk may have room later.
        if error.errno in NO_LINKS:
            text = f"--archive {place}: its disk has no hard links ({error.strerror}); use another one"
            raise Fatal(text, Exit.USAGE) from error
    return Archive(folder, place)


class Archive:
    """The archive of one run. Games may be added by one thread, and checkpoints by another."""

    def __init__(self, objects: Folder | Bucket, place: str) -> None:
        """`place`: the archive's name in messages."""
        self.last = 0
        """Number of the newest archived game; every game up to this one is archived."""
        self.error = ""
        """Why the archive takes no games at the moment; "" if it takes them."""
        self._objects = objects
        self._place = place
        self._trainer = 0
        """Number of this start of a trainer."""

    # ---- the start ----

    def check(self, game: str, run_id: bytes) -> None:
        """Raise Fatal(BAD_DATA) if this is the archive of another run, Fatal(TRY_AGAIN) if it cannot be
        reached. Writes nothing."""
        with self._reached():
            data = self._objects.get(ABOUT)
        if data is None:
            return
        about: Any = None
        with contextlib.suppress(ValueError):
            about = json_in(data)
        if not isinstance(about, dict) or (about.get("format"), about.get("game")) != (FORMAT, game):
            text = f"{self._place} is no archive of {game} in format {FORMAT}: name another with --archive"
            raise Fatal(text, Exit.BAD_DATA)
        if about.get("id") != run_id.hex():
            raise Fatal(
                f"{self._place} is the archive of another run: its identity is {about.get('id')}, the "
                f"server's {run_id.hex()}. Name another with --archive; or, if azserver's run folder is lost "
                f"too and its games may go on, start azserver with a run folder in which only its {ABOUT} is",
                Exit.BAD_DATA,
            )

    def begin(self, about: Mapping[str, Any], store: Store) -> None:
        """Become the run's trainer: read back the games that the store lacks, and archive those that only the
        store has. `about`: run.json of the run's folder.

        Raises Fatal as `check` does, Fatal(BAD_DATA) too if an object is damaged or the store has other games
        than the archive under the same numbers.
        """
        before = store.last_seq
        with self._reached():
            self._objects.create(ABOUT, json.dumps(about, indent=1).encode())
            # Another run may have created it first.
            self.check(about["game"], bytes.fromhex(about["id"]))
            earlier = self._objects.names("trainers")
            self._trainer = max(map(int, earlier), default=0) + 1
            # `create` overwrites nothing, so of two trainers that begin at once, only one gets this number.
            while not self._objects.create(_name("trainers", self._trainer), b"{}"):
                self._trainer += 1
            for name in earlier:
                self._objects.remove(f"trainers/{name}")
            self._objects.remove_unfinished(_name("trainers", self._trainer))
            self._read_back(store, before)
        log.info("archive %s: %d games read back", self._place, store.last_seq - before)
        if (missing := store.last_seq - self.last) > GAMES:
            log.info("archive %s: adding up to %d games that only games.db has", self._place, missing)
        if not self.archive_games(store):
            raise Fatal(f"{self.error}; it is tried again", Exit.TRY_AGAIN)

    def _read_back(self, store: Store, before: int) -> None:
        """Restore the games that the store, whose newest game is number `before`, lacks. Several objects are
        read at once, because a bucket takes tens of milliseconds for each of more than a million in weeks."""
        shared = max(before - COMPARED, 1)
        # Earlier objects end before `shared`; an archive that is far behind has only such.
        names = self._objects.names("games", after=_number(max(shared - GAMES, 0)))
        names = names or self._objects.names("games")
        # The end of the last object is known only from its content.
        ends = zip(names, [*names, ""][1:], strict=True)
        wanted = [name for name, next_ in ends if not next_ or int(next_) > shared]
        told = time.monotonic()
        with ThreadPoolExecutor(READERS) as readers:
            at = 0
            while at < len(wanted):
                # Together they are in memory until the store has taken them.
                last = int(wanted[at]) + GAMES
                some = [name for name in wanted[at : at + READERS] if int(name) < last]
                at += len(some)
                read = readers.map(self._objects.get, (f"games/{name}" for name in some))
                for name, data in zip(some, read, strict=True):
                    self._restore(store, before, name, data or b"")
                if time.monotonic() > told + PROGRESS_SECONDS:
                    log.info("archive %s: %d games read back so far", self._place, store.last_seq - before)
                    told = time.monotonic()

    def _restore(self, store: Store, before: int, name: str, data: bytes) -> None:
        """Add the games of an object that the store lacks."""
        # Each object begins where the one before ends; the first one that is read, at a game of the store.
        if int(name) > (missing := (self.last or before) + 1):
            text = (
                f"{self._place} lacks the games from number {missing} to {int(name) - 1}: restore them from "
                "a copy of the archive, or name an empty folder with --archive if games.db has all games"
            )
            raise Fatal(text, Exit.BAD_DATA)
        content = data[:-HASH_BYTES]
        if sha256(content) != data[-HASH_BYTES:]:
            place = f"{self._place}/games/{name}"
            text = f"{place} is damaged (its hash differs): restore it from a copy of the archive"
            raise Fatal(text, Exit.BAD_DATA)
        decoded = msgspec.msgpack.decode(content)
        rows = [Row(Stored(*columns), player, is_old) for columns, player, is_old in decoded]
        known = [row for row in rows if row.game.seq <= before]
        found = store.uids_between(known[0].game.seq, known[-1].game.seq) if known else []
        if [row.game.uid for row in known] != found:
            raise Fatal(
                f"the games from number {int(name)} on are others in games.db than in {self._place}: "
                "another trainer has gone on with the run meanwhile, or games.db was salvaged. Move "
                "games.db and the checkpoints beside it away: they are read back from the archive. "
                "Of the games that only this games.db has, none was acknowledged",
                Exit.BAD_DATA,
            )
        store.restore(rows[len(known) :])
        reach("archive.restored")
        self.last = rows[-1].game.seq

    # ---- games ----

    def archive_games(self, store: Store) -> bool:
        """Archive all games of the store that are not archived yet. Returns False if the archive cannot be
        reached; then these games must not be acknowledged, nothing may be added to the store, and the caller
        tries again later.

        Raises Fatal(TRY_AGAIN) if another trainer has gone on with the run.
        """
        while self.last < store.last_seq:
            rows = store.rows_after(self.last, GAMES, ENOUGH_BYTES)
            name = _name("games", self.last + 1)
            # The same rows give the same bytes: a write that seemed to fail may have succeeded.
            content = msgspec.msgpack.encode([(astuple(row.game), row.player, row.is_old) for row in rows])
            data = content + sha256(content)
            try:
                is_ours = self._objects.create(name, data) or self._objects.get(name) == data
            except OSError as error:
                self.error = (
                    f"the archive {self._place} cannot be written: {error.strerror or error}. Free space or "
                    "repair the way to it"
                )
                log.error("games are NOT being acknowledged: %s; the games wait.", self.error)
                return False
            reach("archive.kept")
            if not is_ours:
                raise self._fenced()
            self.last = rows[-1].game.seq
        self.error = ""
        return True

    # ---- checkpoints ----

    def checkpoints(self) -> list[str]:
        """Return the names of all files of checkpoints, the oldest first. Raises Fatal(TRY_AGAIN)."""
        with self._reached():
            return self._objects.names("checkpoints")

    def checkpoint(self, name: str) -> bytes:
        """Return the file `name` of a checkpoint; empty if it is gone. Raises Fatal(TRY_AGAIN)."""
        with self._reached():
            return self._objects.get(f"checkpoints/{name}") or b""

    def archive_checkpoint(self, files: Sequence[Path], newest: int) -> None:
        """Archive the first `newest` files of `files`, the files of all checkpoints, in this order, and
        remove archived files that are not among `files`. All games that these checkpoints know must be
        archived.

        Raises OSError if one cannot be read or written, Fatal(TRY_AGAIN) if another trainer has gone on with
        the run.
        """
        # None of these is a successor's, if there is no successor yet when the fence is looked at.
        old = set(self._objects.names("checkpoints")) - {path.name for path in files}
        self._check_fence()
        # All are read first: while one is uploaded, training may remove the others.
        for name, data in [(path.name, path.read_bytes()) for path in files[:newest]]:
            self._objects.put(f"checkpoints/{name}", data)
        # Again, because an upload may take minutes, and a successor goes on from what is archived.
        self._check_fence()
        for name in old:
            self._objects.remove(f"checkpoints/{name}")

    # ---- errors ----

    def _check_fence(self) -> None:
        if max(map(int, self._objects.names("trainers")), default=0) > self._trainer:
            raise self._fenced()

    def _fenced(self) -> Fatal:
        text = f"another trainer has gone on with this run in the archive {self._place}: this one ends"
        return Fatal(text, Exit.TRY_AGAIN)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            text = f"the archive {self._place} cannot be used: {error.strerror or error}; it is tried again"
            raise Fatal(text, Exit.TRY_AGAIN) from error


def _name(kind: str, number: int) -> str:
    return f"{kind}/{_number(number)}"


def _number(number: int) -> str:
    # All names have one length, so that they sort as text.
    return f"{number:012d}"
