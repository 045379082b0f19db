"""Each alert links to a section of its own, whose remedy names only settings that exist."""

import re
from pathlib import Path

import pytest

from azselfplay.diagnostics.advice import ADVICE, link_to
from protocol.settings import settings_in
from server.config import ServerConfig
from trainer.config import TrainerConfig

ROOT = Path(__file__).resolve().parents[2]
SETTING = re.compile(r"[a-z_]+\.[a-z_.]*[a-z]")


@pytest.mark.parametrize("name", ADVICE)
def test_the_link_of_an_alert_leads_to_its_section(name: str) -> None:
    page, _, anchor = link_to(name).partition("#")
    text = (ROOT / page).read_text()
    headings = {one.lower().replace(" ", "-") for one in re.findall(r"^### (.*)$", text, re.MULTILINE)}
    assert anchor in headings


def test_what_an_alert_advises_is_a_setting_of_the_program_that_it_names_and_no_flag() -> None:
    """The command that has the flag may not be at hand: azrun, azplay web and others show alerts, too."""
    known = {"azserver": settings_in(ServerConfig), "the trainer": settings_in(TrainerConfig)}
    for advice in ADVICE.values():
        assert "--" not in f"{advice.first} {advice.cause} {advice.change}"
        for setting in SETTING.findall(advice.first):
            program = next(name for name in known if advice.first.endswith(f"of {name}"))
            assert setting in known[program]
        for setting in SETTING.findall(advice.change):
            assert setting in known["azserver"] | known["the trainer"]
