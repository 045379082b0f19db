"""A player that is not part of azselfplay and keeps its own record of acknowledged games."""

import hashlib
import random
import threading
from typing import Any

from foreign_client import Client

PATIENCE = 600.0
"""Seconds to wait for an answer; processes start slowly on a busy machine."""


class Ledger(threading.Thread):
    """Hands in games without pause and records which were acknowledged as stored."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[bytes] = []
        self.finished = threading.Event()
        self.error: BaseException | None = None
        self._port = port

    def run(self) -> None:
        try:
            client = Client("127.0.0.1", self._port, PATIENCE)
            rng = random.Random(1)
            while not self.finished.is_set():
                game = client.play(rng, keep_subtree=False)
                record = game.record()
                header = {"type": "put_game", "uid": game.uid, "sha256": hashlib.sha256(record).digest()}
                wanted = {"type": "game_ack", "uid": game.uid}
                ack, _ = client.bulk.ask(header, [record], wanted, client.deadline(), resend=2.0)
                self.hear(ack, game.uid)
            client.close()
        except BaseException as error:  # raised again by the test
            self.error = error

    def hear(self, ack: dict[str, Any], uid: bytes) -> None:
        """Record the answer to a game."""
        if ack["status"] in ("stored", "duplicate"):
            self.acknowledged.append(uid)
