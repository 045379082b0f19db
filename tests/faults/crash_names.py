"""The names of all crash points (`host.runs.reach`). A test compares them with the source."""

import re
from pathlib import Path

NAMES = (
    *("archive.kept", "archive.restored"),
    *("atomic.folder_synced", "atomic.replaced", "atomic.synced", "atomic.written"),
    *("checkpoint.old_removed", "checkpoint.weights_written", "checkpoint.written"),
    *("spool.aside", "spool.aside_noted", "spool.deleted", "spool.folder_synced", "spool.kept"),
    *("spool.kept_noted", "spool.renamed", "spool.synced", "spool.taken_back", "spool.written"),
    *("store.begun", "store.committed", "store.inserted"),
    *("takeover.moved", "trainer.acknowledged", "uploader.acknowledged", "uploader.sent", "weights.adopted"),
)
ROOMS = ("azselfplay", "client", "protocol", "server", "trainer")


def in_source() -> list[str]:
    top = Path(__file__).resolve().parents[2]
    texts = [path.read_text() for room in ROOMS for path in (top / room).rglob("*.py")]
    return sorted(name for text in texts for name in re.findall(r'\breach\("([^"]+)"\)', text))
