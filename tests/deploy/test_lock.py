"""requirements.lock: every package that pyproject.toml asks for, in one version, with hashes."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TORCH = re.findall(r"^# torch==(\S+)$", LOCK, re.M)


def locked(section: str) -> dict[str, str]:
    """Return name -> version of what deploy/install.sh installs."""
    end = re.search(rf"^# section: {section}$(.*?)(?=^# section|\Z)", LOCK, re.M | re.S)
    assert end is not None
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK[: end.end()], re.M))


def asked(section: str) -> list[Requirement]:
    """Return what pyproject.toml asks for, with the extras that an extra names."""
    texts = PROJECT["dependencies"] if section == "client" else PROJECT["optional-dependencies"][section]
    found = [Requirement(text) for text in texts]
    inner = [extra for one in found if one.name == "azselfplay" for extra in one.extras]
    more = [one for extra in inner for one in asked(extra)]
    return [one for one in found if one.name != "azselfplay"] + more


@pytest.mark.parametrize("section", ["client", "train", "web", "all", "dev"])
def test_each_section_has_what_its_extra_asks_for(section: str) -> None:
    versions = locked(section) | ({} if section == "client" else {"torch": TORCH[0]})
    for one in asked(section):
        assert one.specifier.contains(versions[one.name.lower().replace("_", "-")]), one


def test_every_package_has_one_version_and_hashes_and_torch_has_none() -> None:
    blocks = re.findall(r"^\S+==\S+ \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", LOCK, re.M)
    lines = [line for line in LOCK.splitlines() if "==" in line and not line.startswith("#")]
    assert len(blocks) == len(lines) == len(locked("dev"))
    assert len(TORCH) == 1
    assert not {"torch", "triton"} & locked("dev").keys()


def test_an_unknown_section_is_named() -> None:
    found = subprocess.run([ROOT / "deploy/install.sh", "python3", "tests"], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (2, "install.sh: no section 'tests' in requirements.lock\n")
