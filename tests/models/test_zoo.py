"""The models in the box."""

import json
from pathlib import Path

import pytest

from gradicon.models import load
from gradicon.models.zoo import DEFAULT, card, find, names

RESULTS = Path(__file__).parents[2] / "docs" / "results"
MOST = 16 * 2**20  # bytes


@pytest.mark.parametrize("name", names())
def test_every_model_has_a_card_and_loads_with_its_hash_checked(name: str):
    found = card(name)
    assert found.path == find(name)
    assert found.path.stat().st_size <= MOST
    assert load(found.path).config == found.header.config
    training = found.header.training
    assert training is not None
    assert training.command in found.commands
    assert training.minutes <= found.minutes  # it may have started from another model
    assert found.header.preprocessing is not None
    assert found.data
    assert found.limits


@pytest.mark.parametrize("name", names())
def test_the_scores_on_a_card_are_those_of_the_tables_in_the_documents(name: str):
    for score in card(name).scores:
        for told, kind in ((score.refined, ""), (score.alone, "-alone")):
            summary = json.loads((RESULTS / f"{name}-{score.set}{kind}.json").read_text())[
                "summary"
            ]
            dice = summary.get("mean_dice")
            assert told == (
                f"{dice['mean']:.3f}"
                if dice
                else f"{summary['mean_landmark_error_mm']['mean']:.2f} mm"
            )


def test_the_default_model_is_free_to_use():
    assert names()[0] == DEFAULT
    found = card(DEFAULT)
    assert "NC" not in found.terms
    assert all("NC" not in source.terms and "research" not in source.terms for source in found.data)


def test_a_model_is_found_by_name_or_by_file(tmp_path: Path):
    assert find(find(DEFAULT)) == find(DEFAULT)
    with pytest.raises(
        FileNotFoundError,
        match="no such checkpoint file, and no model in the box, which has default, research",
    ):
        find(tmp_path / "other.safetensors")
