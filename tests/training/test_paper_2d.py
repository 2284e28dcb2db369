"""The paper's two 2-D sets, as a person trains on them: by the commands alone."""

import json
import re
from pathlib import Path

import pytest

from gradicon.models import ModelConfig, open_checkpoint
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig
from gradicon.training.dataset import Dataset
from gradicon.training.recipe import parse_recipe, read_recipe
from gradicon.training.synthetic import store_synthetic
from gradicon.training.trainer import train
from gradicon.training.triangles import store_shapes
from test_cli import assert_one_line_error, gradicon
from training.masks_on_disk import masks

RECIPES = Path(__file__).parents[2] / "recipes/paper"
TINY = """
[model]
resolutions = 2
down_channels = [4, 8]
up_channels = [4, 8]
[loss]
sigma = 2
[training]
stage1_steps = 3
stage2_steps = 0
log_every = 1
"""


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("triangles", DataConfig(shape=(128, 128), pairs="inter")),
        ("drive", DataConfig(shape=(292, 282), pairs="intra")),
    ],
)
def test_the_recipes_say_what_the_paper_says(name: str, data: DataConfig):
    """Sec. 5.1: shapes and pairs; 5.3: Stage1; 4.2: all the rest, which are the defaults."""
    recipe = read_recipe(RECIPES / f"{name}.toml")
    want = Recipe(
        data=data,
        model=ModelConfig(dimension=2, stage=1),
        loss=LossConfig(similarity="lncc", sigma=5.0, regularizer="gradicon", weight=None),
        training=TrainingConfig(
            batch_size=1,
            learning_rate=5e-5,
            stage1_steps=50_000,
            stage2_steps=0,
            augment=False if data.pairs == "intra" else None,
        ),
        text=recipe.text,
    )
    assert recipe == want
    assert recipe.loss.penalty_weight == 1.5
    assert (recipe.training.schedule, recipe.augments) == ("constant", False)
    said = re.findall(r"^(\w+) = ", recipe.text, flags=re.MULTILINE)
    intra = data.pairs == "intra"  # of which the paper augments pairs of one person
    first = ["shape", "pairs"] if intra else ["shape"]
    assert said == [*first, "stage2_steps", *(["augment"] if intra else [])]


def tiny(folder: Path, name: str, shape: str) -> Path:
    """The recipe, on a smaller grid and for a few steps of a small network."""
    data = (RECIPES / f"{name}.toml").read_text().split("[training]")[0]
    path = folder / f"{name}.toml"
    path.write_text(re.sub(r"shape = .*", f"shape = {shape}", data) + TINY)
    return path


def assert_it_trains(recipe: Path, data: Path, run: Path) -> None:
    told = gradicon("train", recipe, "--data", data, "-o", run, "--device", "cpu")
    assert told.returncode == 0, told.stderr
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len([line for line in lines if "loss" in line]) == 3
    assert open_checkpoint(run / "model.safetensors").header.config.dimension == 2


def test_triangles_are_made_and_trained_on(tmp_path: Path):
    recipe = tiny(tmp_path, "triangles", "[24, 24]")
    how = ("synthesise", "--kind", "triangles", "-r", recipe)
    made = gradicon(*how, "--count", "12", "--validation", "2", "-o", tmp_path / "data")
    assert made.returncode == 0, made.stderr
    assert "12 images, 2 validation pairs" in made.stdout
    assert len(Dataset.open(tmp_path / "data").images) == 16
    assert_it_trains(recipe, tmp_path / "data", tmp_path / "run")


def test_triangles_are_as_many_as_the_papers(tmp_path: Path):
    recipe = tiny(tmp_path, "triangles", "[16, 16]")
    made = gradicon("synthesise", "--kind", "triangles", "-r", recipe, "-o", tmp_path / "data")
    assert made.returncode == 0, made.stderr
    assert len(Dataset.open(tmp_path / "data").groups[0].images) == 2000


def test_masks_are_deformed_and_trained_on(tmp_path: Path):
    recipe = tiny(tmp_path, "drive", "[29, 28]")
    folder = masks(tmp_path / "masks", (58, 56))
    how = ("deform", folder, "-r", recipe, "--points", "3", "--sigma", "1.2")
    made = gradicon(*how, "--validation", "2", "-o", tmp_path / "data")
    assert made.returncode == 0, made.stderr
    assert "40 pairs, 2 validation pairs" in made.stdout
    assert_it_trains(recipe, tmp_path / "data", tmp_path / "run")


def test_what_the_commands_refuse(tmp_path: Path):
    flat = tiny(tmp_path, "triangles", "[16, 16]")
    out = ("-o", tmp_path / "data")
    assert gradicon("synthesise", "-r", flat, *out).returncode == 2
    assert gradicon("deform", tmp_path, "-r", flat, "--points", "3", *out).returncode == 2
    few = gradicon("deform", tmp_path, "-r", flat, "--points", "1", "--sigma", "2", *out)
    assert_one_line_error(few, "points must be at least 2")
    assert not (tmp_path / "data").exists()


def test_recipes_and_data_of_other_dimensions_do_not_meet(tmp_path: Path):
    flat = read_recipe(tiny(tmp_path, "triangles", "[16, 16]"))
    deep = parse_recipe('[data]\nshape = [16, 16, 16]\npairs = "intra"')
    store_shapes(tmp_path / "flat", flat.data, 2)
    store_synthetic(tmp_path / "deep", deep.data, 2)
    for recipe, data in ((flat, "deep"), (deep, "flat")):
        with pytest.raises(ValueError, match="prepared with shape = .*, but the recipe says"):
            train(recipe, tmp_path / data, tmp_path / "run")
    assert not (tmp_path / "run").exists()
