"""Curves can be distinguished by people with impaired colour vision, on paper and on a dark screen."""

from __future__ import annotations

import itertools
import re

import numpy as np
import numpy.typing as npt
import pytest

from azselfplay.lab.web.app import ASSETS

STYLE = (ASSETS / "style.css").read_text()
SCHEMES = ("light", "dark")
COLOUR = "#[0-9a-f]{6}"

SEEN_BY = {
    "all": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
"""Machado, Oliveira and Fernandes 2009, severity 1; for linear RGB."""


def colours(scheme: str, name: str) -> list[str]:
    """Return the variables called `name` of a scheme, in order."""
    found = re.findall(f"--{name}: ({COLOUR})", STYLE)
    half = len(found) // 2
    assert half > 0
    return found[:half] if scheme == "light" else found[half:]


def linear(colour: str) -> npt.NDArray[np.float64]:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return CIE 1976 L*a*b*."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: str, other: str, seen: npt.NDArray[np.float64]) -> float:
    return float(np.linalg.norm(lab(seen @ linear(one)) - lab(seen @ linear(other))))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("eyes", SEEN_BY)
def test_two_runs_are_far_apart_and_four_curves_never_alike(scheme: str, eyes: str) -> None:
    """A difference of 2 is just visible (CIE 1976); small marks need ten times that."""
    first = colours(scheme, "c[0-9]")[:4]
    assert distance(first[0], first[1], SEEN_BY[eyes]) > 60
    assert min(distance(*pair, SEEN_BY[eyes]) for pair in itertools.combinations(first, 2)) > 20


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_curve_stands_out_from_the_paper(scheme: str) -> None:
    """WCAG 2.1, 1.4.11 demands a contrast of 3."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    paper = float(linear(colours(scheme, "raised")[0]) @ weights)
    curves = [float(linear(colour) @ weights) for colour in colours(scheme, "c[0-9]")]
    assert len(curves) == 8
    assert all((max(one, paper) + 0.05) / (min(one, paper) + 0.05) >= 3 for one in curves)
