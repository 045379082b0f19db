"""Names of networks, and how weights files describe them."""

import json

import pytest

from net.architectures.registry import architecture_from_json, name_of, named, preset_names

TINY = (
    '{"blocks": 2, "channels": 32, "family": "residual", "flat_policy_channels": 16, '
    '"squeeze_channels": 32, "squeeze_excitation": false, "training_heads": [], "value_channels": 4, '
    '"value_head": "wdl", "value_hidden": 64}'
)
"""The text that weights files hold."""


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_has_its_own_name_and_survives_json(name: str) -> None:
    architecture = named(name)
    assert name_of(architecture) == name
    assert architecture_from_json(architecture.to_json()) == architecture
    assert named(architecture.name).name == architecture.name


def test_the_text_in_weights_files_stays_the_same() -> None:
    assert named("tiny").to_json() == TINY
    assert architecture_from_json(TINY) == named("tiny")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"family": "perceptron"}, "no family 'perceptron' of networks; known: residual"),
        ({"blocks": 0}, "blocks must be a whole number from 1 to 100, not 0"),
        ({"squeeze_excitation": 1}, "squeeze_excitation must be true or false"),
        ({"depth": 3}, "expected exactly the fields .*blocks, channels"),
    ],
)
def test_a_wrong_architecture_is_explained(change: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        architecture_from_json(json.dumps(json.loads(TINY) | change))
