"""Each alert links to a section of its own, whose remedy names only settings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from azselfplay.diagnostics.advice import ADVICE, link_to
from azselfplay.lab.generated_pages import settings_of
from server.config import ServerConfig
from trainer.config import TrainerConfig

ROOT = Path(__file__).resolve().parents[2]
SETTING = re.compile(r"--[a-z-]+\.[a-z.-]*[a-z]")


@pytest.mark.parametrize("name", ADVICE)
def test_the_link_of_an_alert_leads_to_its_section(name: str) -> None:
    page, _, anchor = link_to(name).partition("#")
    text = (ROOT / page).read_text()
    headings = {one.lower().replace(" ", "-") for one in re.findall(r"^### (.*)$", text, re.MULTILINE)}
    assert anchor in headings


def test_what_an_alert_advises_is_a_setting_of_the_program_that_it_names() -> None:
    known = {"azserver": ServerConfig, "the trainer": TrainerConfig}
    settings = {program: {one.name for one in settings_of(kind)} for program, kind in known.items()}
    for advice in ADVICE.values():
        for setting in SETTING.findall(advice.first):
            program = next(name for name in known if advice.first.endswith(f"of {name}"))
            assert setting in settings[program]
        for setting in SETTING.findall(advice.change):
            assert setting in settings["azserver"] | settings["the trainer"]
