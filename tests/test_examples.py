import importlib.util
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/your_own_unet.py"


def test_your_own_unet_learns_without_folds(capsys: pytest.CaptureFixture[str]):
    spec = importlib.util.spec_from_file_location("your_own_unet", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
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


def test_the_python_in_the_readme_runs():
    (snippet,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    names: dict[str, torch.Tensor] = {}
    exec(snippet.replace("64", "40"), names)
    assert names["warped"].shape == (1, 1, 40, 40, 40)
    assert names["folds"].item() == 0
    assert names["loss"].requires_grad
