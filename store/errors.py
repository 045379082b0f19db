"""Which errors of SQLite say that the file is damaged, and which only that it cannot be used at the moment.

After the latter nothing has been stored, the games stay in the spools, and the same commit is tried again.
Any other error (https://sqlite.org/rescode.html) means that the file is not the one we wrote, or that our
own statements are wrong: going on would not help.
"""

from __future__ import annotations

import apsw

NO_DAMAGE: tuple[type[Exception], ...] = (
    apsw.FullError,  # the disk is full
    apsw.IOError,  # it reads or writes badly, or is gone
    apsw.ReadOnlyError,  # it was mounted anew for reading only
    apsw.CantOpenError,  # journal or WAL cannot be opened: no descriptor is free, no right, folder moved
    apsw.PermissionsError,
    apsw.NoLFSError,  # the file system takes no file of this size
    apsw.NoMemError,
    MemoryError,
    apsw.BusyError,  # somebody else works on the file
    apsw.LockedError,
    apsw.ProtocolError,  # the race for the locks of a WAL was lost too often
    apsw.SchemaChangeError,  # somebody changed the tables between preparing a statement and running it
    apsw.AbortError,  # rolled back or interrupted by another statement or thread of ours
    apsw.InterruptError,
)
