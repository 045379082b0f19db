"""Runs a plan on a Ray cluster: one detached actor for each part, on a node with the label of one of its
places.

Ray places the actors and restarts them. Leaves, games and weights go directly between our own processes,
never through Ray. An actor owns the process of its part. When the process ends, the actor ends itself, so
that Ray restarts it, on another of the part's places if the node is gone. After an exit code that would come
again, the actor stays, so that `status` can report the code.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray

from azselfplay.host.config import without_settings
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.logs import LogFile
from azselfplay.host.processes import Child, describe_exit, ending_with_parent
from azselfplay.host.runs import RunFolder
from azselfplay.host.view import aligned
from azselfplay.lab.cluster.plan import Part, RunTable, runnable

LABEL = "place"
"""Label of a node whose value is the name of its place: `ray start --labels=place=NAME`."""
PAUSE = 5.0
"""Seconds between the end of a part's process and its next start."""
ANSWER = 15.0
"""Seconds that an actor may take to report its state; an actor whose node is gone never answers."""


class Keeper:
    """The actor of one part."""

    def __init__(self, part: Part, log: Path) -> None:
        """`log`: file for the output of the process, on the node where it runs."""
        self._grace, self._final = part.grace, part.final
        self._ended: int | None = None
        self._asked = threading.Event()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._child = Child(part.name, runnable(part.command), {}, LogFile(log).write)
        # Remove variables that Ray sets for its own workers, which would mislead our programs;
        # CUDA_VISIBLE_DEVICES stays.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("RAY", "PYTHON"))}
        # Start the process in this thread, the main one, so that it ends with the actor, however the actor
        # ends.
        self._process = subprocess.Popen(
            self._child.argv,
            env=without_settings(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=ending_with_parent(),
        )
        threading.Thread(target=self._watch, daemon=True).start()

    def state(self) -> tuple[str, int, str]:
        """Return (the part's place, process id, state as text)."""
        how = "runs"
        if self._ended is not None:
            how = f"ended: {describe_exit(self._ended)} {self._child.reported_error()}".strip()
        return ray.get_runtime_context().get_node_labels()[LABEL], self._process.pid, how

    def stop(self, wait: bool) -> None:
        """Ask the process to end for good, and wait for its end if `wait`."""
        # A second signal would make the program stop at once.
        if not self._asked.is_set():
            self._asked.set()
            self._process.terminate()
        if wait:
            try:
                self._process.wait(self._grace)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _watch(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._child.tail += line
            # Only the end of the output is kept: errors are there.
            del self._child.tail[:-4096]
            self._child.sink(line)
        code = self._process.wait()
        # Wait a moment, because otherwise a part that fails at once would be restarted in a tight loop.
        if code not in self._final and not self._asked.wait(PAUSE):
            # Ray then starts this actor again.
            os._exit(1)
        self._ended = code


def up(run: RunTable, parts: Sequence[Part]) -> None:
    """Start the actors of all parts. Raises Fatal(TRY_AGAIN) if they run, Fatal(UNREACHABLE) if a place has
    no node."""
    _join(run)
    if _actors(parts):
        raise Fatal(f"{run.name} is up on this Ray cluster already: `azcluster down` ends it", Exit.TRY_AGAIN)
    nodes = {node["Labels"].get(LABEL) for node in ray.nodes() if node["Alive"]}
    for part in parts:
        # One place is enough: the trainer's spare places may join later.
        if not nodes & set(part.places):
            raise Fatal(
                f"no node of the Ray cluster has the label {LABEL}={part.places[0]}, for {part.name}: there, "
                f"`ray start --address=HEAD:6379 --labels={LABEL}={part.places[0]}`",
                Exit.UNREACHABLE,
            )
    for part in parts:
        ray.remote(Keeper).options(
            name=part.name,
            lifetime="detached",
            max_restarts=-1,
            num_cpus=part.table.cpus,
            num_gpus=part.table.gpus,
            label_selector={LABEL: part.places[0]},
            fallback_strategy=[{"label_selector": {LABEL: place}} for place in part.places[1:]] or None,
        ).remote(part, RunFolder(run.runs, run.name).logs / f"azcluster-{part.name}.log")
    status(run, parts)


def status(run: RunTable, parts: Sequence[Part]) -> None:
    """Print the state of each part. Raises Fatal(UNREACHABLE) if no part is there."""
    _join(run)
    actors = _actors(parts)
    if not actors:
        raise Fatal(
            f"{run.name} is not up on this Ray cluster: `azcluster up ... --on ray`", Exit.UNREACHABLE
        )
    asked = {name: actor.state.remote() for name, actor in actors.items()}
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER)
    rows = [("part", "place", "process", "how it is")]
    for part in parts:
        found = (
            " or ".join(part.places),
            "",
            "waits for a node with this label, its processors and its GPUs",
        )
        with contextlib.suppress(KeyError, ray.exceptions.RayError):
            found = ray.get(asked[part.name], timeout=0)
        rows.append((part.name, found[0], str(found[1]), found[2]))
    print(aligned(rows, left=4), flush=True)


def down(run: RunTable, parts: Sequence[Part]) -> None:
    """End the parts in order: players first, so that their games are stored; the server still takes the
    trainer's last weights. Then remove the actors."""
    _join(run)
    actors = _actors(parts)
    players = [name for name in actors if name.startswith("client")]
    graces = {part.name: part.grace for part in parts}
    for names, wait in ((players, True), (["server"], False), (["trainer"], True), (["server"], True)):
        asked = {name: actors[name].stop.remote(wait) for name in names if name in actors}
        if asked:
            longest = max(graces[name] for name in asked) + ANSWER
            ray.wait(list(asked.values()), num_returns=len(asked), timeout=longest)
    for actor in actors.values():
        ray.kill(actor)


def _join(run: RunTable) -> None:
    if ray.is_initialized():
        return
    try:
        ray.init("auto", namespace=f"azselfplay-{run.name}", logging_level="ERROR", log_to_driver=False)
    except ConnectionError as error:
        raise Fatal(
            f"this machine belongs to no Ray cluster: `ray start --head --labels={LABEL}=NAME`, or --address="
            "HEAD:6379 instead of --head",
            Exit.UNREACHABLE,
        ) from error


def _actors(parts: Sequence[Part]) -> Mapping[str, Any]:
    """Return the existing actors by the names of their parts."""
    there = set(ray.util.list_named_actors())
    return {part.name: ray.get_actor(part.name) for part in parts if part.name in there}
