"""The plan of a cluster: which part of a run runs where, with which command. Pure, except for reading the
file.

A cluster file names places (machines) and the parts that run there: one azserver, one trainer that may have
spare places, any number of azclients. `planned` makes their commands; `local`, `on_ray` and `rendered` run
these commands or prepare that. The system that runs a part restarts it whenever it ends, unless its exit code
is one of `Part.final`.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from azselfplay.games.names import near_or_all
from azselfplay.host.config import flattened
from azselfplay.host.exits import NOT_RETRIED, Exit, Fatal, as_fatal
from azselfplay.host.ports import LOOPBACK, Address
from azselfplay.host.processes import python_module
from azselfplay.host.reading import read_toml
from azselfplay.lab.azrun_config import TRAINER_GRACE, check_parts, falling
from azselfplay.lab.experiments import recipe as recipes
from client.config import ClientConfig
from protocol.settings import BasePort, Count, Positive, converted, settings_in
from server.config import NO_GPUS, ServerConfig
from trainer.config import TrainerConfig

T = TypeVar("T")

METRICS_PORT = 9600
"""Port of the metrics of the first part on a machine; further parts use the following ports."""
MODULES = {"azserver": "server.main", "azclient": "client.main"}
"""Modules of the programs, which are started with this Python because the programs may not be on the PATH."""
DRAIN = 300.0
"""Seconds in which clients of a rendered plan finish their games when they are stopped."""
GRACES = {"server": 60.0, "trainer": 180.0, "client": 30.0}
"""Seconds that a part gets for a clean end; a client gets its drain in addition."""


@dataclass(frozen=True)
class RunTable:
    """[run]: what is played and trained."""

    name: str
    """Name of the run, and of its folder."""
    game: str = ""
    recipe: str = ""
    """Recipe with the settings of server and trainer, as for azrun; it knows its game and network."""
    net: str = ""
    runs: str = "runs"
    """Folder of all runs on every place. A trainer with spare places needs it on a disk that they share, or
    an archive."""
    port: BasePort = 5600
    server_key: str = ""
    """The server's public key, unless it listens on its own machine only (docs/security.md)."""
    metrics: str = "127.0.0.1"
    """Address on which parts serve their metrics, without key or encryption."""
    image: str = "azselfplay:0.1.0"
    """Container image, for Kubernetes. Clients without evaluators use the one with `-client` in its name."""


@dataclass(frozen=True)
class Place:
    """[places.NAME]: a machine."""

    host: str = ""
    """Address at which the other machines reach it; empty: its name."""
    gpus: Count = 0
    gpu: str = ""
    """Kind of its GPUs, such as H100, for SkyPilot."""


@dataclass(frozen=True)
class PartTable:
    """[server], [trainer] and each of [[clients]]."""

    places: tuple[str, ...]
    """Clients run on each of them; the trainer on one, the first that works; the server has one."""
    gpus: Count = 0
    """GPUs on each place. Without any, the trainer uses the CPU, the server evaluates nothing, and clients
    are evaluated by the server's GPUs if it has any, else by their own CPU."""
    cpus: Positive = 4
    memory_gb: Positive = 16
    settings: dict[str, Any] = field(default_factory=dict)
    """Further settings of the program, over those of the recipe."""


@dataclass(frozen=True)
class Cluster:
    """A cluster file."""

    run: RunTable
    places: Mapping[str, Place]
    server: PartTable
    trainer: PartTable
    clients: tuple[PartTable, ...] = ()


@dataclass(frozen=True)
class Part:
    """A process of the run, with everything needed to run it."""

    name: str
    """server, trainer, or client and its place."""
    table: PartTable
    places: tuple[str, ...]
    """Places where the part may run, the best first; it runs on one of them at a time."""
    hosts: tuple[str, ...]
    """The addresses of these places."""
    command: tuple[str, ...]
    metrics_port: int
    devices: tuple[int, ...] = ()
    """The numbers of the part's GPUs on a machine without a system that assigns GPUs."""
    group: int = 0
    """For a client: the index of its [[clients]] table, from 1."""
    grace: float = 0.0
    """Seconds that the part gets for a clean end."""
    final: tuple[int, ...] = tuple(sorted(NOT_RETRIED))
    """Exit codes after which the part is not restarted."""

    @property
    def host(self) -> str:
        """The address of the best place."""
        return self.hosts[0]

    def with_devices(self, visible: str = "") -> tuple[str, ...]:
        """Return the command, limited to its GPUs. `visible`: a value of CUDA_VISIBLE_DEVICES, of whose
        entries these are some; empty: of all GPUs. Raises Fatal(CONFIG) if it has too few."""
        if not self.devices:
            return self.command
        names = visible.split(",") if visible else [*map(str, range(self.devices[-1] + 1))]
        if len(names) <= self.devices[-1]:
            text = f"CUDA_VISIBLE_DEVICES={visible} has no {self.devices[-1] + 1} GPUs for {self.name}"
            raise Fatal(f"{text}: name more there, or ask for fewer `gpus` in the file", Exit.CONFIG)
        ours = ",".join(names[number] for number in self.devices)
        return ("env", f"CUDA_VISIBLE_DEVICES={ours}", *self.command)


# ---- The file ------------------------------------------------------------------------------------


def read(path: Path) -> Cluster:
    """Return the cluster in a file. Raises Fatal(USAGE) for whatever is wrong with it."""
    with (
        as_fatal(OSError, Exit.USAGE, f"cannot read {path}: "),
        as_fatal(ValueError, Exit.USAGE, f"{path} is not TOML: "),
        as_fatal(Fatal, Exit.USAGE, f"{path}: "),
    ):
        return cluster_in(read_toml(path))


def cluster_in(tables: Mapping[str, Any]) -> Cluster:
    """Return the cluster in the tables of a file. Raises Fatal(USAGE) for unknown or missing keys and places,
    and for parts that a run has only once."""
    _check_keys(Cluster, tables, "")
    for name in ("server", "trainer"):
        if isinstance(tables[name], list):
            raise _wrong(f"[[{name}]]: a run has one {name}; write a single [{name}]")
    places, clients = tables["places"], tables.get("clients", [])
    if not isinstance(places, dict) or not isinstance(clients, list):
        raise _wrong("places are tables [places.NAME], and clients are tables [[clients]]")
    cluster = Cluster(
        _table(RunTable, tables["run"], "run"),
        {name: _table(Place, place, f"places.{name}") for name, place in places.items()},
        _table(PartTable, tables["server"], "server"),
        _table(PartTable, tables["trainer"], "trainer"),
        tuple(_table(PartTable, one, "clients") for one in clients),
    )
    if len(cluster.server.places) != 1:
        raise _wrong("server.places: a run has one azserver, so name one place")
    of_clients = [("clients", one, ClientConfig) for one in cluster.clients]
    with_kinds: list[tuple[str, PartTable, type]] = [
        ("server", cluster.server, ServerConfig),
        ("trainer", cluster.trainer, TrainerConfig),
        *of_clients,
    ]
    for where, part, kind in with_kinds:
        if not part.places or len(set(part.places)) < len(part.places):
            raise _wrong(f"{where}.places must name a place or several, each once")
        for place in part.places:
            if place not in cluster.places:
                raise _wrong(
                    f"{where}.places: there is no place {place!r}; {near_or_all(place, cluster.places)}"
                )
        known = settings_in(kind)
        for name, value in flattened(part.settings).items():
            if name not in known:
                text = near_or_all(name, known)
                raise _wrong(f"{where}.settings: {name!r} is not a setting of the {where}; {text}")
            # Check here, because the program's own message would speak of a flag.
            with as_fatal(ValueError, Exit.USAGE, f"{where}.settings.{name} "):
                converted(value, known[name])
    return cluster


def _table(kind: type[T], given: Any, where: str) -> T:
    """Return a dataclass of settings from one table of the file."""
    _check_keys(kind, given, where)
    hints, values = get_type_hints(kind, include_extras=True), {}
    for name, value in given.items():
        with as_fatal(ValueError, Exit.USAGE, f"{where}.{name} "):
            values[name] = converted(value, hints[name])
    return kind(**values)


def _check_keys(kind: Any, given: Any, where: str) -> None:
    if not isinstance(given, dict):
        raise _wrong(f"{where} must be a table, [{where}]")
    known = [one.name for one in fields(kind)]
    at = f" of [{where}]" if where else ""
    for key in given:
        if key not in known:
            raise _wrong(f"{key!r} is not a key{at}; {near_or_all(key, known)}")
    for one in fields(kind):
        if one.name not in given and one.default is one.default_factory is MISSING:
            raise _wrong(f"{one.name!r} is missing{at}")


def _wrong(text: str) -> Fatal:
    return Fatal(text, Exit.USAGE)


# ---- Where it runs -------------------------------------------------------------------------------


def on_one_machine(cluster: Cluster) -> Cluster:
    """Return the same cluster with all its places on this machine, whose server no other machine reaches, so
    that no part needs a key."""

    def without_keys(table: PartTable) -> PartTable:
        left_out = ("listen", "keys", "key", "server_key")
        kept = {name: value for name, value in table.settings.items() if name not in left_out}
        return replace(table, settings=kept)

    return replace(
        cluster,
        places={name: replace(one, host="127.0.0.1") for name, one in cluster.places.items()},
        server=without_keys(cluster.server),
        trainer=without_keys(cluster.trainer),
        clients=tuple(without_keys(one) for one in cluster.clients),
    )


def elsewhere(cluster: Cluster) -> Cluster:
    """Return the cluster for machines where other programs start it: its clients finish their games when they
    are stopped, for DRAIN seconds if the file does not say. Raises Fatal(USAGE) for a relative folder."""
    if not Path(cluster.run.runs).is_absolute():
        raise _wrong(f"run.runs {cluster.run.runs!r} must be an absolute path, the same on every place")
    clients = (replace(one, settings={"drain": DRAIN, **one.settings}) for one in cluster.clients)
    return replace(cluster, clients=tuple(clients))


def planned(cluster: Cluster) -> list[Part]:
    """Return the parts: server, trainer, then clients. Raises Fatal(USAGE) if a place has too few GPUs, or a
    server that others reach has no key."""
    assigner = _Assigner(cluster)
    parts = [assigner.part(wanted) for wanted in _wanted(cluster)]
    assigner.check()
    return parts


@dataclass(frozen=True)
class _Wanted:
    """A part that has no metrics port and no GPUs yet."""

    name: str
    table: PartTable
    places: tuple[str, ...]
    own: Mapping[str, Any]
    """Settings that follow from the rest of the file."""
    program: tuple[str, ...]
    basis: Mapping[str, Any] = field(default_factory=dict)
    """Settings of lowest priority."""
    group: int = 0
    """As in `Part`."""


def _wanted(cluster: Cluster) -> list[_Wanted]:
    """Return the parts in the order of `planned`."""
    run = cluster.run
    game, net, of_server, of_trainer = _basis(run)
    home = _host(cluster, cluster.server.places[0])
    is_open = home not in LOOPBACK and not cluster.server.settings.get("insecure")
    if is_open and not run.server_key:
        raise _wrong(
            "[run] needs server_key, which `azserver keygen` prints, because the server listens beyond its "
            "machine; on a network that you trust, write settings.insecure = true into [server]"
        )
    where = {"runs": run.runs, "run": run.name}
    joining = {"server": Address(home, run.port).server}
    joining |= {"server_key": run.server_key} if is_open else {}
    gpus = ",".join(map(str, range(cluster.server.gpus)))
    # The file may say otherwise: a name does not tell whether its address is one of IPv6.
    of_server["listen"] = home if home in LOOPBACK else "::" if ":" in home else "0.0.0.0"
    served: dict[str, Any] = {"game": game, **({"net": net} if net else {}), **where, "gpus": gpus or NO_GPUS}
    # When all parts end, the server still accepts the trainer's last weights.
    served |= {"port": run.port, "trainer_grace": TRAINER_GRACE}
    served |= {} if gpus else {"workers": 0}
    trained = {**joining, **where, "device": _cuda(cluster.trainer.gpus) or "cpu"}
    server, trainer, as_trainer = cluster.server, cluster.trainer, ("python", "-m", "trainer")
    wanted = [
        _Wanted("server", server, server.places, served, ("azserver",), of_server),
        _Wanted("trainer", trainer, trainer.places, trained, as_trainer, of_trainer),
    ]
    seen: Counter[str] = Counter()
    for group, table in enumerate(cluster.clients, 1):
        device = _cuda(table.gpus) or ("remote" if gpus else "cpu")
        for place in table.places:
            seen[place] += 1
            name = f"client-{place}" + (f"-{seen[place]}" if seen[place] > 1 else "")
            # The client waits for the server without limit; the system that runs the client ends it.
            own = {**joining, "device": device, "spool": f"{run.runs}/{run.name}/spool/{name}", "max_wait": 0}
            wanted.append(_Wanted(name, table, (place,), own, ("azclient",), group=group))
    return wanted


def _host(cluster: Cluster, place: str) -> str:
    # IPv6 addresses may be written with brackets, which only belong to an address with a port.
    return (cluster.places[place].host or place).strip("[]")


class _Assigner:
    """Gives each part the next free metrics port and GPUs of its machines. Call it in the order of the
    plan."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ports: Counter[str] = Counter()
        """Metrics ports in use, by machine."""
        self._devices: Counter[str] = Counter()
        """GPUs in use, by machine: several places may share a machine."""
        self._parts_on: dict[str, list[str]] = {name: [] for name in cluster.places}
        """By place, the name of each part as often as the part asks for a GPU there."""

    def part(self, wanted: _Wanted) -> Part:
        """Raises Fatal(USAGE) if the file gives a setting that follows from the rest of it."""
        name, table, places = wanted.name, wanted.table, wanted.places
        hosts = tuple(_host(self._cluster, place) for place in places)
        given, first = flattened(table.settings), self._devices[hosts[0]]
        # It must be free on every place, because the part has the same command on each.
        port = METRICS_PORT + max(self._ports[host] for host in hosts)
        own = {**wanted.own, "metrics_port": port, "metrics_listen": self._cluster.run.metrics}
        if both := sorted(own.keys() & given):
            raise _wrong(f"{name}: settings.{both[0]} follows from the rest of the file: leave it out")
        for place in places:
            self._parts_on[place] += [name] * table.gpus
        for host in set(hosts):
            self._devices[host] += table.gpus
            self._ports[host] = port - METRICS_PORT + 1
        grace = GRACES.get(name, GRACES["client"] + float(given.get("drain", 0.0)))
        command = (*wanted.program, *_flags({**flattened(wanted.basis), **given, **own}))
        devices = tuple(range(first, first + table.gpus))
        return Part(name, table, places, hosts, command, port, devices, wanted.group, grace)

    def check(self) -> None:
        """Raise Fatal(USAGE) if the parts ask for more GPUs than a place has."""
        for place, names in self._parts_on.items():
            if len(names) > (has := self._cluster.places[place].gpus):
                shares = ", ".join(f"{name} {count}" for name, count in Counter(names).items())
                raise _wrong(f"place {place!r} has {has} GPUs, and its parts ask for {len(names)} ({shares})")


def _basis(run: RunTable) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Return the game, the network, and the settings of server and trainer from the recipe."""
    if not run.recipe:
        if not run.game:
            raise _wrong("[run] needs a game or a recipe")
        return run.game, run.net, {}, {}
    with as_fatal(Fatal, Exit.USAGE):
        recipe = recipes.load(run.recipe)
    if run.game and recipe.game not in recipes.games_of(run.game):
        raise _wrong(f"run.recipe {run.recipe!r} is for {recipe.game}, not for {run.game}")
    server, trainer = recipe.parts
    del server["net"]
    # A run on a cluster has no fixed end, so its learning rate does not fall.
    return run.game or recipe.game, run.net or recipe.net, server, falling(trainer, 0.0)


def _cuda(gpus: int) -> str:
    return ",".join(f"cuda:{index}" for index in range(gpus))


def _flags(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as flags of our programs."""
    words = []
    for name, value in settings.items():
        group, dot, last = name.replace("_", "-").rpartition(".")
        if isinstance(value, bool):
            words.append(f"--{group}{dot}{'' if value else 'no-'}{last}")
        else:
            words += [f"--{group}{dot}{last}", str(value)]
    return words


def runnable(command: Sequence[str]) -> list[str]:
    """Return a command of the plan for this machine, with our programs started by the current Python."""
    at = next(index for index, word in enumerate(command) if "=" not in word and word != "env")
    program, *flags = command[at:]
    module = MODULES.get(program) or flags[1]
    return [*command[:at], *python_module(module, *(flags if program in MODULES else flags[2:]))]


def check(parts: Sequence[Part]) -> ServerConfig:
    """Have each program read its settings, and return those of azserver. Raises Fatal or SystemExit as the
    program would."""
    return check_parts({part.name: runnable(part.command) for part in parts})[0]


# ---- For people and for Prometheus ---------------------------------------------------------------


def as_text(parts: Sequence[Part]) -> str:
    """Return every command with its place, as text."""
    lines = []
    for part in parts:
        where = part.places[0] if part.places[0] == part.host else f"{part.places[0]} ({part.host})"
        spare = f", or on {', '.join(part.places[1:])}" if part.places[1:] else ""
        table = part.table
        needs = f"{table.cpus} cpus, {table.memory_gb} GB" + (f", {table.gpus} GPUs" if table.gpus else "")
        lines += [f"# {part.name} on {where}{spare}: {needs}", shlex.join(part.with_devices()), ""]
    final = " ".join(map(str, parts[0].final))
    return "\n".join([*lines, f"# Whatever ends is started again, unless its exit code is one of {final}."])


def targets(run: str, parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Return the addresses of the metrics of a run's parts in the form that Prometheus reads from a file
    (`file_sd_configs`), with the labels that our dashboard and alerts use."""
    jobs = {"server": "azserver", "trainer": "trainer"}
    return [
        {
            "targets": [Address(host, part.metrics_port).server],
            "labels": {"job": jobs.get(part.name, "azclient"), "run": run, "part": part.name, "place": place},
        }
        for part in parts
        for host, place in dict(zip(part.hosts, part.places, strict=True)).items()
    ]
