"""README and pages: required warnings beside some flags, links that lead somewhere, the map of the code."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MACHINES = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]


def lead(page: str) -> str:
    """Return a page up to its second heading, on one line and without quotation marks at line starts."""
    return " ".join(page.split("\n## ")[0].replace("\n>", "\n").split())


def test_what_it_says_of_gpus_was_measured_and_what_was_not_is_said_beside_the_flag_for_several() -> None:
    claimed = re.search(r"`medium`, H200 \| ([\d,]+)000 \|", README)
    assert claimed is not None
    assert f"**{claimed[1]}" in (ROOT / "bench" / "RESULTS.md").read_text()
    assert "--gpus 0,1 --listen" in lead(MACHINES)
    assert "Several GPUs are untested" in lead(MACHINES)


def test_it_says_how_to_make_keys_beside_the_flag_that_lets_others_in() -> None:
    for page in (lead(MACHINES), " ".join(README.split())):
        assert "`--listen`" in page
        assert all(
            command in page for command in ("azserver keygen", "azclient keygen", "azserver allow client")
        )


def test_the_map_of_the_code_lists_every_folder() -> None:
    listed = {name.split("/")[0] for name in re.findall(r"^\| `([\w/]+)/` \|", ARCHITECTURE, re.M)}
    assert listed == {*LINTER["root_packages"], "bench", "tests", "results"}


def test_the_picture_of_the_packages_shows_the_layers_that_imports_are_checked_against() -> None:
    packages = ARCHITECTURE.split("\n## Packages and layers\n")[1]
    picture = packages.split("```text\n")[1].split("```")[0]
    drawn = [set(line.split(" · ")) for line in picture.splitlines() if "↓" not in line]
    (layers,) = (contract["layers"] for contract in LINTER["contracts"] if contract["type"] == "layers")
    assert drawn == [set(layer.split(" | ")) for layer in layers]
