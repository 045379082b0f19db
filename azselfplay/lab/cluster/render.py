"""Renders a plan for the systems that start programs on a user's machines: Kubernetes, Slurm, systemd,
SkyPilot. Also renders the list of metrics addresses for Prometheus. Pure.

The files are filled from the templates in `templates/`: `{{name}}` stands for a value, and a line that
consists only of an empty value is left out.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from azselfplay.host.exits import Exit, Fatal
from azselfplay.lab.cluster.plan import METRICS_PORT, Cluster, Part, check, elsewhere, planned, targets
from client.spool import MAX_BYTES

TEMPLATES = Path(__file__).parent / "templates"
PROGRAMS = "/opt/azselfplay/bin/"
"""Where systemd finds our programs."""
ABOUT = {
    "server": "the server, which takes games and weights and tells everybody",
    "trainer": "the trainer, which stores games, trains the network and publishes its weights",
    "client": "a client, which plays games",
}
NAMES = {"server": "azserver", "trainer": "trainer", "client": "azclient"}
TASKS = 1000
"""Number of metrics ports that are reserved for the tasks of one Slurm array."""
SECRET = "SECRET"
"""Placeholder for the server's key, which a pod reads from a secret."""

Files = dict[str, str]
"""Texts by path."""


def rendered(cluster: Cluster, engine: str) -> Files:
    """Return the files for `engine`. Raises Fatal(USAGE) as the plan does."""
    return RENDERERS[engine](cluster)


def _checked(cluster: Cluster) -> list[Part]:
    """Return the parts of a cluster that other systems start. Each program has checked its settings."""
    parts = planned(elsewhere(cluster))
    check(parts)
    return parts


def _filled(template: str, values: Mapping[str, Any]) -> str:
    lines = []
    for line in (TEMPLATES / template).read_text().splitlines():
        text = re.sub(r"\{\{(\w+)\}\}", lambda found: str(values[found[1]]), line)
        if text or not line:
            lines.append(text)
    return "\n".join(lines) + "\n"


def _kind(part: Part) -> str:
    return part.name if part.name in ABOUT else "client"


def _values(part: Part) -> dict[str, Any]:
    """Return the values of a part that every template may use."""
    kind, table = _kind(part), part.table
    return {
        "kind": kind,
        "name": NAMES[kind] + (f"-{part.group}" if part.group > 1 else ""),
        "about": ABOUT[kind],
        "count": len(table.places) if part.group else 1,
        "cpus": table.cpus,
        "memory": table.memory_gb,
        "grace": round(part.grace),
        "metrics": part.metrics_port,
        "final": ", ".join(map(str, part.final)),
    }


def _one_of_each(parts: Sequence[Part]) -> list[Part]:
    """Return the parts without the second and further clients of each group, because clients of a group are
    alike."""
    return [
        part for index, part in enumerate(parts) if not part.group or part.group != parts[index - 1].group
    ]


def _with(command: Sequence[str], changes: Mapping[str, str | None]) -> list[str]:
    """Return a command with changed values for some flags. None removes the flag; an empty text keeps its
    value."""
    words: list[str] = []
    rest = iter(command)
    for word in rest:
        value = next(rest) if word in changes else ""
        if word not in changes:
            words.append(word)
        elif (new := changes[word]) is not None:
            words += [word, new or value]
    return words


# ---- Kubernetes ----------------------------------------------------------------------------------


def _kubernetes(cluster: Cluster) -> Files:
    """Return the files for Kubernetes, which chooses machines by the resources that parts request. Keys come
    from secrets."""
    home = cluster.server.places[0]
    hosts = {
        name: replace(one, host="azserver" if name == home else "") for name, one in cluster.places.items()
    }
    run = replace(cluster.run, runs="/runs", server_key=SECRET, metrics="0.0.0.0")
    # Pods always get a key from a secret, so the server need not be open to everybody.
    settings = {key: value for key, value in cluster.server.settings.items() if key != "insecure"}
    server = replace(cluster.server, settings=settings)
    parts = _checked(replace(cluster, run=run, places=hosts, server=server))
    # A registry may have a port, so only a colon after the last slash begins a tag.
    image = run.image.rpartition("/")[2]
    if "@" in image:
        text = (
            f"run.image {run.image!r} has a digest, which the image of the clients cannot share: give a tag"
        )
        raise Fatal(text, Exit.USAGE)
    repository, colon, tag = image.partition(":")
    bare = f"{run.image.removesuffix(image)}{repository}-client{colon}{tag}"
    files = {}
    for part in _one_of_each(parts):
        gpus = part.table.gpus
        is_remote = "remote" in part.command
        values = _values(part) | {
            "image": bare if is_remote else run.image,
            "command": json.dumps(_with(part.command, {"--server-key": None, "--spool": "/spool"})),
            "gpu_limit": f", nvidia.com/gpu: {gpus}" if gpus else "",
            "port": run.port,
            "bulk": run.port + 1,
            "last_metrics": max(one.metrics_port for one in parts),
            # There are at most as many workers as processors.
            "spool_gb": math.ceil(part.table.cpus * MAX_BYTES / 2**30) + 1,
        }
        files[f"{values['name']}.yaml"] = _filled(f"kubernetes_{values['kind']}.yaml", values)
        if part.name == "server":
            files["namespace.yaml"] = _filled("kubernetes_namespace.yaml", values)
    return files


# ---- Slurm ---------------------------------------------------------------------------------------


def _slurm(cluster: Cluster) -> Files:
    """Return the files for Slurm, which chooses all nodes except azserver's. The other parts have to find
    azserver, so its place is the name of a node."""
    parts = _checked(cluster)
    files = {}
    for index, part in enumerate(_one_of_each(parts)):
        spool, is_array = "", bool(part.group)
        # Slurm may put any parts, and any tasks of an array, on the same node, so all ports differ.
        metrics = str(METRICS_PORT + index)
        if is_array:
            # The spool is on a disk that outlives the job, so that the next job sends games that were not
            # acknowledged.
            where = shlex.quote(f"{cluster.run.runs}/{cluster.run.name}/spool/client-{part.group}")
            first = METRICS_PORT + TASKS * part.group
            spool = (
                f"task=${{SLURM_ARRAY_TASK_ID:-0}}\nspool={where}-$task\n"
                f"metrics=$(({first} + task % {TASKS}))"
            )
            metrics = "@metrics@"
        values = _values(part)
        # Insert these after quoting, because the job's shell must still expand them.
        command = shlex.join(_with(part.command, {"--spool": "@spool@", "--metrics-port": metrics}))
        command = command.replace("@spool@", '"$spool"').replace("@metrics@", '"$metrics"')
        values |= {
            "command": command,
            "spool": spool,
            "array": f"#SBATCH --array=0-{len(part.table.places) - 1}" if is_array else "",
            "output": values["name"] + ("-%A_%a" if is_array else "-%j"),
            "node": f"#SBATCH --nodelist={part.places[0]}" if part.name == "server" else "",
            "gpus": f"#SBATCH --gres=gpu:{part.table.gpus}" if part.table.gpus else "",
            "final": " | ".join(map(str, part.final)),
        }
        files[f"{values['name']}.sh"] = _filled("slurm.sh", values)
    return files


# ---- systemd -------------------------------------------------------------------------------------


def _systemd(cluster: Cluster) -> Files:
    """Return systemd units by place. The trainer's spare places have no units, because systemd does not move
    programs."""
    parts = _checked(cluster)
    files = {}
    for part in parts:
        kind, place = _kind(part), part.places[0]
        name = {"trainer": "aztrainer"}.get(kind, NAMES[kind])
        if f"{place}/{name}.service" in files:
            name += f"-{part.group}"
        words = [PROGRAMS + part.command[0], *part.command[1:]]
        numbers = ",".join(map(str, part.devices))
        # If the kernel kills a process for lack of memory, the trainer fails as a whole; the other programs
        # restart the child.
        values = _values(part) | {
            "name": name,
            # Both characters have a special meaning for systemd, even within quotes.
            "command": shlex.join(words).replace("%", "%%").replace("$", "$$"),
            "after": " azserver.service" if kind == "trainer" else "",
            "devices": f"Environment=CUDA_VISIBLE_DEVICES={numbers}" if numbers else "",
            "oom": "OOMPolicy=continue" if kind != "trainer" else "",
            "nice": "Nice=10\nCPUWeight=20" if kind == "client" else "",
            "final": " ".join(map(str, part.final)),
            "runs": cluster.run.runs,
        }
        files[f"{place}/{name}.service"] = _filled("systemd.service", values)
    return files


# ---- SkyPilot ------------------------------------------------------------------------------------


def _skypilot(cluster: Cluster) -> Files:
    """Return the files for SkyPilot, which finds machines anywhere. It knows azserver's address only once
    azserver runs (AZ_SERVER)."""
    parts = _checked(cluster)
    files = {}
    for part in _one_of_each(parts):
        values, kinds = _values(part), {cluster.places[place].gpu for place in part.places}
        if part.table.gpus and (len(kinds) > 1 or "" in kinds):
            raise Fatal(
                f'SkyPilot needs the kind of the GPUs of {values["name"]}: write gpu, such as "H100", into '
                f"[places.{part.places[0]}], the same for all of its places",
                Exit.USAGE,
            )
        ports = f"  ports: [{cluster.run.port}, {cluster.run.port + 1}]"
        values |= {
            "command": shlex.join(_with(part.command, {"--server": None})),
            "accelerators": f"  accelerators: {kinds.pop()}:{part.table.gpus}" if part.table.gpus else "",
            "ports": ports if part.name == "server" else "",
            "envs": "" if part.name == "server" else "envs:\n  AZ_SERVER: null",
            "launch": "sky jobs launch" if part.group else f"sky launch -c {values['name']}",
            "final": " | ".join(map(str, part.final)),
        }
        files[f"{values['name']}.yaml"] = _filled("skypilot.yaml", values)
    return files


# ---- all of them ---------------------------------------------------------------------------------


RENDERERS: dict[str, Callable[[Cluster], Files]] = {
    "kubernetes": _kubernetes,
    "slurm": _slurm,
    "systemd": _systemd,
    "skypilot": _skypilot,
    # Prometheus starts nothing; it only needs the addresses.
    "prometheus": lambda cluster: {
        "targets.json": json.dumps(targets(cluster.run.name, planned(cluster)), indent=1) + "\n"
    },
}
