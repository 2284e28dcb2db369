import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from gradicon.training.config import DataConfig
from gradicon.training.dataset import Dataset
from gradicon.training.pairs import Pairs
from gradicon.training.triangles import store_shapes

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/your_own_unet.py"


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def test_your_own_unet_learns_without_folds(capsys: pytest.CaptureFixture[str]):
    example = imported(EXAMPLE)
    torch.manual_seed(0)
    example.train(example.MyUNet(), steps=150)
    lines = [re.findall(r"[\d.]+", line) for line in capsys.readouterr().out.splitlines()]
    similarity = [float(line[1]) for line in lines]
    folds = [float(line[2]) for line in lines]
    assert similarity[-1] < 0.25 * similarity[0]
    assert folds[-1] < 0.2


def test_it_is_short_and_the_page_shows_it_whole():
    code = EXAMPLE.read_text(encoding="utf-8")
    assert code.count("\n") <= 50
    assert f"```python\n{code}```" in (ROOT / "docs/how-to/gradicon-as-a-loss.md").read_text(
        encoding="utf-8"
    )


def test_the_pairs_that_a_training_sees_are_drawn(tmp_path: Path):
    """Moving above fixed; white between columns."""
    store_shapes(tmp_path / "data", DataConfig(shape=(32, 32)), 9)
    imported(ROOT / "examples/look_at_pairs.py").draw(tmp_path / "data", tmp_path / "a.png", 3)
    drawn = imread(tmp_path / "a.png")[..., 0]
    assert drawn.shape == (2 * 32 + 4, 3 * 32 + 2 * 4)
    dataset = Dataset.open(tmp_path / "data")
    moving, fixed = Pairs.of(dataset, seed=0).draw(2, 0)
    for image, rows in ((moving, slice(0, 32)), (fixed, slice(36, 68))):
        np.testing.assert_allclose(drawn[rows, 36:68], dataset.images[image], atol=0.01)
    assert (drawn[:, 32:36] == 1).all()
    assert (drawn[32:36] == 1).all()


def test_the_python_in_the_readme_runs():
    (snippet,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    names: dict[str, torch.Tensor] = {}
    exec(snippet.replace("64", "40"), names)
    assert names["warped"].shape == (1, 1, 40, 40, 40)
    assert names["folds"].item() == 0
    assert names["loss"].requires_grad
