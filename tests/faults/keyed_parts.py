"""azserver, azclient and trainer with keys and metrics; each can be killed and restarted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from free_ports import free_base_port
from keyed import TRAINER, KeyRing
from parts import Parts
from scraped import Metrics, scrape
from target import HOST

NAMES = ("server", "trainer", "client.main")
CLIENT = "client"


class KeyedParts(Parts):
    """Enter it to start all three and wait for a stored game. All leaves come from azclient."""

    def __init__(self, folder: Path, guests: Sequence[str] = ()) -> None:
        """`guests`: names of further keys for clients."""
        super().__init__(folder)
        self.keys = KeyRing(folder, [CLIENT, *guests])
        self.host = HOST
        base = free_base_port()
        self.metrics_ports = {name: base + number for number, name in enumerate(NAMES)}

    def __enter__(self) -> KeyedParts:
        try:
            for name in NAMES:
                self.begin(name)
            self.wait_for_play()
        except BaseException:
            self.stop()
            raise
        return self

    def wait_for_play(self) -> None:
        """Wait until games are stored."""
        stored = 'az_games_received_total{status="stored"}'
        self.wait(lambda: self.metrics("trainer").get(stored, 0.0) > 0, "stored games")

    def wait_until_whole(self) -> None:
        """Wait until evaluator, client and trainer are up again, and every key is allowed."""
        wanted = ("az_evaluators", 'az_clients{role="clients"}', "az_trainer_present")

        def is_whole() -> bool:
            told = self.metrics("server")
            is_there = all(told.get(name, 0.0) > 0 for name in wanted) and bool(self.metrics("trainer"))
            return is_there and told.get("az_allowed_keys") == self.keys.count

        self.wait(is_whole, "all parts")

    def metrics(self, name: str) -> Metrics:
        """Return the metrics of one part; {} while it does not answer."""
        return scrape(self.metrics_ports[name])

    def whole_log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _server_flags(self) -> list[str]:
        flags = super()._server_flags()
        flags[flags.index("--workers") + 1] = "0"
        return [*flags, *self.keys.server_flags(), *self._tells("server")]

    def _client_flags(self) -> list[str]:
        return self._dialled(CLIENT, super()._client_flags()) + self._tells("client.main")

    def _trainer_flags(self) -> list[str]:
        return self._dialled(TRAINER, super()._trainer_flags()) + self._tells("trainer")

    def _dialled(self, key: str, flags: list[str]) -> list[str]:
        flags[flags.index("--server") + 1] = f"{self.host}:{self.port}"
        return [*flags, *self.keys.dial_flags(key)]

    def _tells(self, name: str) -> list[str]:
        return ["--metrics-port", str(self.metrics_ports[name])]
