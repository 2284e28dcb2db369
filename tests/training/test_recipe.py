import re
from pathlib import Path

import pytest

from gradicon.models import ModelConfig
from gradicon.training.recipe import parse_recipe, read_recipe

ROOT = Path(__file__).parents[2]


def test_the_defaults_are_the_papers():
    recipe = parse_recipe("[data]\nshape = [175, 175, 175]")
    assert recipe.model == ModelConfig()
    assert (
        recipe.loss.similarity,
        recipe.loss.sigma,
        recipe.loss.regularizer,
        recipe.loss.penalty_weight,
    ) == (
        "lncc",
        5,
        "gradicon",
        1.5,
    )
    how = recipe.training
    assert (how.batch_size, how.learning_rate, how.stage1_steps, how.stage2_steps) == (
        1,
        5e-5,
        50_000,
        50_000,
    )
    assert (recipe.augments, how.augment_noise, how.flips, how.precision) == (
        False,
        0.05,
        True,
        "32",
    )
    assert (recipe.data.crop, recipe.data.pairs) == ("fit", "inter")


def test_the_papers_other_setting():
    shape = "[data]\nshape = [16, 16]\n"
    assert parse_recipe(shape + '[loss]\nsimilarity = "mse"').loss.penalty_weight == 0.2
    assert parse_recipe(shape + '[loss]\nsimilarity = "mse"\nweight = 3').loss.penalty_weight == 3
    assert parse_recipe(shape + '[loss]\nsimilarity = "mind_ssc"').loss.penalty_weight == 0.02
    assert parse_recipe(shape + "[training]\nstage2_steps = 0").model.stage == 1
    assert parse_recipe(shape).model.dimension == 2


def test_the_page_shows_a_recipe_for_icon():
    page = (ROOT / "docs/how-to/train.md").read_text(encoding="utf-8")
    _, text = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    recipe = parse_recipe(text)
    assert recipe.model == ModelConfig(composition="icon")
    assert (recipe.loss.regularizer, recipe.loss.penalty_weight) == ("icon", 500)
    one_stage = text.replace("stage2_steps = 50000", "stage2_steps = 0")
    assert parse_recipe(one_stage).model == ModelConfig(composition="icon", stage=1)


def test_windows_may_differ_by_axis():
    shape = "[data]\nshape = [16, 16]\n[loss]\n"
    assert parse_recipe(shape + "sigma = 3").loss.sigma == 3.0
    assert parse_recipe(shape + "sigma = [1, 2.5]").loss.sigma == (1.0, 2.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "[data] shape is missing"),
        ("[data\n", "not a TOML file"),
        (
            "[dada]\nshape = 1",
            "unknown section [dada]: expected some of [data], [model], [loss], [training]",
        ),
        ("data = 3", "[data] must be a section"),
        ("[data]\nshape = 16", "[data] shape must be a list, got 16"),
        ("[data]\nshape = [16, 2.5]", "[data] shape must be a whole number, got 2.5"),
        ("[data]\nshape = [16, 4]", "[data] shape must be 2 or 3 whole numbers of at least 8"),
        (
            '[data]\nshape = [16, 16]\ncrop = "centre"',
            "[data] crop must be one of fit, center, got 'centre'",
        ),
        (
            '[data]\nshape = [16, 16]\ncrop = "center"',
            "[data] spacing_mm must be 2 positive numbers",
        ),
        (
            "[data]\nshape = [16, 16]\nspacing_mm = [1, 1]",
            '[data] spacing_mm is for crop = "center"',
        ),
        ("[data]\nshape = [16, 16]\n[loss]\nlamda = 3", "[loss] unknown name 'lamda'"),
        (
            '[data]\nshape = [16, 16]\n[loss]\nsimilarity = "nmi"',
            "[loss] similarity must be one of lncc",
        ),
        (
            "[data]\nshape = [16, 16]\n[loss]\nsigma = [1, 0]",
            "[loss] sigma must be positive, got 0",
        ),
        (
            "[data]\nshape = [16, 16]\n[loss]\nsigma = [1, 2, 3]",
            "[loss] sigma has 3 numbers, but [data] shape has 2",
        ),
        ('[data]\nshape = [16, 16]\n[loss]\nsigma = "5"', "[loss] sigma must be a number, got '5'"),
        ("[data]\nshape = [16, 16]\n[loss]\nweight = -1", "[loss] weight must be zero or more"),
        ("[data]\nshape = [16, 16]\n[loss]\nweight = nan", "[loss] weight must be zero or more"),
        (
            '[data]\nshape = [16, 16]\n[loss]\nweight = "1"',
            "[loss] weight must be a number, got '1'",
        ),
        (
            "[data]\nshape = [16, 16]\n[training]\nbatch_size = 0",
            "[training] batch_size must be at least 1",
        ),
        (
            "[data]\nshape = [16, 16]\n[training]\nseed = true",
            "[training] seed must be a whole number, got True",
        ),
        (
            "[data]\nshape = [16, 16]\n[training]\naugment = 1",
            "[training] augment must be true or false, got 1",
        ),
        (
            "[data]\nshape = [16, 16]\n[training]\nlearning_rate = 0",
            "[training] learning_rate must be positive",
        ),
        (
            "[data]\nshape = [16, 16]\n[training]\nstage1_steps = 0\nstage2_steps = 0",
            "there is nothing to train",
        ),
        (
            "[data]\nshape = [16, 16]\n[model]\nstage = 1",
            "[model] stage: a recipe trains both stages",
        ),
        (
            '[data]\nshape = [16, 16]\n[model]\ncomposition = "icon"\nresolutions = 2',
            '[model] composition "icon" has two resolutions',
        ),
        ("[data]\nshape = [16, 16]\n[model]\nwidth = 1", "[model] unknown name 'width'"),
        (
            "[data]\nshape = [16, 16]\n[model]\ndimension = 3",
            "[model] dimension is 3, but [data] shape has 2 numbers",
        ),
        (
            "[data]\nshape = [16, 16]\n[model]\nimage_channels = 2",
            "[model] image_channels must be 1",
        ),
    ],
)
def test_bad_recipes_are_one_line_that_names_file_section_and_key(
    tmp_path: Path, unhooked: None, text: str, message: str
):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(
        ValueError, match="^" + re.escape(f"{tmp_path / 'r.toml'}: ") + ".*" + re.escape(message)
    ) as error:
        read_recipe(tmp_path / "r.toml")
    assert "\n" not in str(error.value)


def test_a_missing_recipe(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="none.toml: no such recipe"):
        read_recipe(tmp_path / "none.toml")


@pytest.mark.parametrize("path", sorted(ROOT.glob("recipes/*.toml")), ids=lambda path: path.name)
def test_the_recipes_of_the_project_can_be_read(path: Path):
    assert read_recipe(path).training.steps > 0


@pytest.mark.parametrize(
    ("pairs", "said", "augments"),
    [
        ("inter", "", False),
        ("intra", "", True),
        ("joined", "", False),
        ("intra", "augment = false", False),
        ("inter", "augment = true", True),
    ],
)
def test_images_of_one_person_are_augmented_unless_the_recipe_says_otherwise(
    pairs: str, said: str, augments: bool
):
    recipe = parse_recipe(f'[data]\nshape = [16, 16]\npairs = "{pairs}"\n[training]\n{said}')
    assert recipe.augments == augments
    assert recipe.preprocessing.augmented == augments
