"""Networks as pictures, made from their configuration."""

from pathlib import Path

import pytest

from gradicon.core.network import RegistrationNetwork
from gradicon.errors import GradiconError
from gradicon.experiments.drawing import draw_network, steps_of
from gradicon.models import ModelConfig, build

SMALL = {"dimension": 2, "down_channels": (4, 8), "up_channels": (4, 8)}


@pytest.mark.parametrize(
    ("config", "formula", "halvings"),
    [
        (ModelConfig(**SMALL), "TS{TS{Down{TS{Down{Ψ1}, Ψ2}}, Ψ3}, Ψ4}", [2, 1, 0, 0]),
        (ModelConfig(**SMALL, stage=1), "TS{Down{TS{Down{Ψ1}, Ψ2}}, Ψ3}", [2, 1, 0]),
        (ModelConfig(**SMALL, stage=1, resolutions=1), "Ψ1", [0]),
        (ModelConfig(**SMALL, resolutions=1, repeats=3), "TS{Ψ1, Ψ2 3 times}", [0, 0]),
        (ModelConfig(**SMALL, composition="icon"), "TS{Down{TS{Ψ1, Ψ2}}, Ψ3}", [1, 1, 0]),
    ],
    ids=["Stage2", "Stage1", "one", "repeats", "ICON"],
)
def test_a_network_is_written_as_the_paper_does(
    config: ModelConfig, formula: str, halvings: list[int]
):
    model = build(config)
    found, steps = steps_of(model.net)
    assert found == formula
    assert [step.halvings for step in steps] == halvings
    assert [step.number for step in steps] == list(range(1, len(halvings) + 1))
    total = sum(parameter.numel() for parameter in model.parameters())
    assert sum(step.parameters for step in steps) == total


def test_the_papers_network_is_drawn(tmp_path: Path):
    draw_network(ModelConfig(), tmp_path / "network.png")
    assert (tmp_path / "network.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_made_in_another_way_is_refused():
    class Other(RegistrationNetwork):
        def forward(self, moving, fixed):  # noqa: ANN001, ANN202
            raise NotImplementedError

    with pytest.raises(GradiconError, match="a Other cannot be drawn"):
        steps_of(Other())
