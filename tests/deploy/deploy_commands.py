"""Extracts the commands from the files under deploy/ and from those that azcluster renders for the example,
and names the parsers that must accept them."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from azselfplay.host import config
from azselfplay.host.ports import LOOPBACK
from azselfplay.lab.cluster.plan import read
from azselfplay.lab.cluster.render import rendered
from client.config import ClientConfig
from server.config import ServerConfig
from trainer.config import TrainerConfig

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CLUSTER = ROOT / "examples" / "cluster.toml"
EXAMPLES = ("", "", "")
Command = list[str]
Settings = ServerConfig | ClientConfig | TrainerConfig


def parsed(command: Command) -> Settings:
    """Return the settings that the program itself reads from its flags. Raises SystemExit or Fatal if it
    refuses them."""
    program, *flags = command
    match Path(program).name:
        case "azserver":
            return config.load(ServerConfig, flags, command="azserver", examples=EXAMPLES).check()
        case "azclient":
            return config.load(ClientConfig, flags, command="azclient", examples=EXAMPLES)
        case "python" if flags[:2] == ["-m", "trainer"]:
            return config.load(TrainerConfig, flags[2:], command="trainer", examples=EXAMPLES).check()
    raise AssertionError(f"no program of ours: {command}")


@cache
def rendered_for(engine: str) -> Mapping[str, str]:
    """Return what azcluster renders for the example, by path."""
    return rendered(read(CLUSTER), engine)


def unit(name: str) -> dict[str, list[str]]:
    """Return the settings of a rendered systemd unit, all sections together; a setting may be given more than
    once."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", rendered_for("systemd")[name], re.M):
        found.setdefault(key, []).append(value)
    return found


def documents(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file name, document) for every YAML document under deploy/docker, or rendered for Kubernetes."""
    texts = {path.name: path.read_text() for path in sorted((DEPLOY / folder).glob("*.yaml"))}
    for name, text in (texts or rendered_for(folder)).items():
        for document in yaml.safe_load_all(text):
            yield name, document


def services() -> dict[str, dict[str, Any]]:
    """Return the services of the compose files by file and name."""
    return {
        f"{file}/{name}": service
        for file, document in documents("docker")
        for name, service in document["services"].items()
    }


def pod_specs() -> dict[str, dict[str, Any]]:
    """Return the pod specs of everything in the manifests that creates pods, by name."""
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for _, document in documents("kubernetes")
        if "template" in document.get("spec", {})
    }


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["containers"]
    assert isinstance(only, dict)
    return only


def is_with_keys(command: Command, environment: Mapping[str, str]) -> bool:
    """Return whether a program asks for keys, or shows its own, with these flags and variables."""
    settings = parsed(command)
    if isinstance(settings, ServerConfig):
        return settings.listen not in LOOPBACK and not settings.insecure and environment["AZ_KEYS"] == "/keys"
    return environment["AZ_KEY"].startswith("/keys/") and bool(environment["AZ_SERVER_KEY"])


def tool(distribution: str, name: str) -> Path:
    """Return the path of a program that a Python package brings, wherever it was installed."""
    return next(Path(str(file.locate())) for file in files(distribution) or () if file.name == name)


def by_promtool(*words: str, text: str = "") -> str:
    """Return what Prometheus' own checker says; skip the test where it is missing."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool here (Debian: prometheus)")
    done = subprocess.run([promtool, *words], input=text, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
