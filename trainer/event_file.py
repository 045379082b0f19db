"""TensorBoard's event file, written one whole step at a time: a full disk loses that step and nothing else.

TensorBoard's own writer buffers and writes in a thread; after a failed write it can only be thrown away.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from runtime.log_files import append_whole

_VERSION = "brain.Event:2"
"""Content of the first record of an event file."""


class EventFile:
    """A new event file in `folder`, created by the first successful `write`."""

    def __init__(self, folder: Path) -> None:
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.0"
        self.path = folder / name
        self._begun = False

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        """Add one value for each name. Raises OSError, and then leaves the file as it was."""
        buffer = io.BytesIO()
        records = RecordWriter(buffer)
        now = time.time()
        if not self._begun:
            records.write(Event(wall_time=now, file_version=_VERSION).SerializeToString())
        values = [Summary.Value(tag=name, simple_value=number) for name, number in numbers.items()]
        records.write(Event(wall_time=now, step=step, summary=Summary(value=values)).SerializeToString())
        append_whole(self.path, buffer.getvalue())
        self._begun = True
