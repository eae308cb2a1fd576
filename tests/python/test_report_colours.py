"""Colours of reports: those who see no red or no green can tell the lines of a plot apart."""

from __future__ import annotations

import re
from importlib import resources
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from flashwright.pages.figures import (
    COLOURS,
    DASHES,
    REST,
    Colours,
    bar_colours,
    highlight,
    highlight_note,
)

Vector = npt.NDArray[np.float64]

# Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision
# Deficiency, IEEE TVCG 2009, severity 1.0, of linear light.
SEEN = {
    "all colours": np.eye(3),
    "no red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
# Ottosson: A perceptual color space for image processing, 2020 (Oklab).
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
APART = 0.1
"""Distance in Oklab: about five times what one just sees between patches beside each other."""


def themes() -> dict[str, dict[str, str]]:
    css = (resources.files("flashwright.pages") / "assets" / "report.css").read_text()
    blocks = {"light": css.split("}")[0], "dark": css.split("}")[1]}
    return {name: dict(re.findall(r"--(\w+): (#\w{6})", block)) for name, block in blocks.items()}


def linear(colour: str) -> Vector:
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("seen", SEEN)
def test_lines_are_told_apart(theme: str, seen: str) -> None:
    colours = [themes()[theme][f"c{number}"] for number in range(COLOURS)]
    places = {
        colour: TO_LAB @ np.cbrt(TO_CONES @ np.clip(SEEN[seen] @ linear(colour), 0, 1))
        for colour in colours
    }
    for first, second in combinations(colours, 2):
        distance = float(np.linalg.norm(places[first] - places[second]))
        assert distance > APART, f"{first} and {second} for who sees {seen}: {distance:.3f}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_stand_out_from_the_paper(theme: str) -> None:
    colours = themes()[theme]
    card = luminance(colours["card"])
    for number in range(COLOURS):
        line = luminance(colours[f"c{number}"])
        ratio = (max(line, card) + 0.05) / (min(line, card) + 0.05)
        assert ratio >= 3, f"c{number}: WCAG 2.1 wants 3 of graphics, this is {ratio:.1f}"


def test_beyond_the_colours_lines_have_other_dashes_and_symbols() -> None:
    names = [f"policy {number}" for number in range(13)]
    colours = Colours(names)
    assert len({(colours[name], colours.dash(name)) for name in names}) == 13
    assert len({colours.symbol(name) for name in names}) == 13
    bars = [colours.fill(name) for name in names]
    assert len({(bar["color"], bar["pattern"]["shape"]) for bar in bars}) == 13
    assert [colours.dash(name) for name in names[: COLOURS + 1]] == [DASHES[0]] * COLOURS + [
        DASHES[1]
    ]


def test_of_many_lines_the_best_few_stand_out() -> None:
    def lines(number: int) -> list[dict[str, object]]:
        return [{"name": str(line), "line": {"color": f"@c{line}"}} for line in range(number)]

    assert highlight(lines(COLOURS), ["0"]) == lines(COLOURS)
    drawn = highlight(lines(14), ["0", "5"])
    assert [trace["name"] for trace in drawn[-2:]] == ["0", "5"], "they are drawn on top"
    assert [trace["line"]["color"] for trace in drawn] == [REST] * 12 + ["@c0", "@c5"]
    assert highlight_note(drawn)
    assert not highlight_note(lines(COLOURS))
    assert bar_colours(4, 1) == ["@c7", "@c0", "@c7", "@c7"]
