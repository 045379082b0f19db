"""The files beside the README agree with the project."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_names_the_version_and_the_licence_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"] == "MIT"
    assert "the azselfplay authors" in (ROOT / "LICENSE").read_text()


def test_the_changelog_has_the_version_of_the_package() -> None:
    assert f"\n## {PROJECT['version']} - 20" in (ROOT / "CHANGELOG.md").read_text()


def test_hooks_before_a_commit_are_local_programs_of_the_dev_extra() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    programs = {Path(hook["entry"].split()[0]) for hook in repository["hooks"]}
    assert {program.parent for program in programs} == {Path(".venv/bin")}
    packages = {re.split(r"\W", one)[0] for one in PROJECT["optional-dependencies"]["dev"]}
    assert {program.name for program in programs} <= packages


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest imports them by name, so `make test-nightly`, which collects them all, would fail."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
