import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from golden.reference import load_case
from gradicon.models import from_icon, load, read_header, read_icon
from gradicon.registration.demo import run_demo
from gradicon.registration.options import Options


def gradicon(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradicon", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"},
    )


def assert_one_line_error(result: subprocess.CompletedProcess[str], message: str) -> None:
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("gradicon: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def assert_quiet_when_interrupted(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "gradicon", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(12)  # well past the imports
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.save(dict(load_case("stage1_2d").state_dict), tmp_path / "network.trch")
    return tmp_path / "network.trch"


def test_weights_of_the_reference_are_imported(weights: Path, tmp_path: Path):
    out = tmp_path / "model.safetensors"
    result = gradicon("import-weights", weights, "-o", out)
    assert result.returncode == 0, result.stderr
    assert "Stage1, 2-D, 14,270,706 parameters" in result.stdout
    case = load_case("stage1_2d")
    with torch.no_grad():
        phi = load(out)(*case.images).on_grid(case.shape)
    torch.testing.assert_close(phi, case.arrays["eval_phi"], rtol=0, atol=1e-5)
    told = json.loads(gradicon("inspect", out).stdout)
    assert told["config"]["stage"] == 1
    assert told["notes"]["imported from"] == "network.trch"


def test_import_refuses_what_it_should(weights: Path, tmp_path: Path):
    out = tmp_path / "model.safetensors"
    assert_one_line_error(
        gradicon("import-weights", tmp_path / "none.trch", "-o", out), "none.trch: no such file"
    )
    (tmp_path / "text.trch").write_text("text")
    assert_one_line_error(
        gradicon("import-weights", tmp_path / "text.trch", "-o", out),
        "text.trch: not a file of weights",
    )
    assert_one_line_error(
        gradicon("import-weights", weights, "-o", tmp_path / "no" / "m.safetensors"),
        "does not exist",
    )
    assert not out.exists()
    out.write_text("precious")
    assert_one_line_error(
        gradicon("import-weights", weights, "-o", out),
        "exists: choose another place, or say --overwrite",
    )
    assert out.read_text() == "precious"
    assert gradicon("import-weights", weights, "-o", out, "--overwrite").returncode == 0


def test_a_recipe_says_how_images_are_prepared_for_imported_weights(weights: Path, tmp_path: Path):
    dimension = from_icon(read_icon(weights)).config.dimension
    recipe = tmp_path / "recipe.toml"
    shape = [16] * dimension
    lines = [
        "[data]",
        f"shape = {shape}",
        'modality = "ct"',
        "window = [-1000, 0]",
        'pairs = "intra"',
    ]
    recipe.write_text("\n".join(lines))
    out = tmp_path / "model.safetensors"
    assert gradicon("import-weights", weights, "--recipe", recipe, "-o", out).returncode == 0
    header = read_header(out).preprocessing
    assert header is not None
    assert (header.shape, header.modality, header.window) == (tuple(shape), "ct", (-1000.0, 0.0))
    assert header.augmented  # as pairs of one person are
    recipe.write_text(f"[data]\nshape = {[16] * (5 - dimension)}")
    assert_one_line_error(
        gradicon("import-weights", weights, "--recipe", recipe, "-o", out, "--overwrite"),
        f"the recipe is {5 - dimension}-D, but the weights",
    )
    assert_one_line_error(
        gradicon("import-weights", out, "-r", recipe, "-o", tmp_path / "b.safetensors"),
        "a checkpoint says itself how it was trained",
    )


def test_inspect_refuses_what_is_no_checkpoint(weights: Path):
    assert_one_line_error(
        gradicon("inspect", weights), "network.trch: not a whole safetensors file"
    )


def test_the_demo_registers_the_bundled_pair(tmp_path: Path):
    result = run_demo(tmp_path, Options(refine=5))
    assert result.dice_before[1] == pytest.approx(0.672, abs=1e-3)
    assert all(after > 0.77 for after in result.dice_after.values())
    assert result.folds_percent == 0
    assert result.made == "the answer of the model default, refined"
    assert json.loads((tmp_path / "demo.json").read_text())["made"] == result.made
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "report.html").is_file()


def test_a_demo_without_matplotlib_is_refused_before_the_slow_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="figures need matplotlib: pip install"):
        run_demo(tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_ctrl_c_is_quiet_and_leaves_nothing_behind(tmp_path: Path):
    assert_quiet_when_interrupted("demo", "-o", tmp_path, "--refine", "100000")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["import-weights"], ["inspect"], ["models"], ["prepare"], ["train"]]
)
def test_help_has_an_example(command: list[str]):
    result = gradicon(*command, "--help")
    assert result.returncode == 0
    assert "gradicon" in result.stdout
    if command:
        assert "Example: gradicon" in " ".join(result.stdout.split())


def test_wrong_usage():
    assert gradicon("import-weights").returncode == 2
    assert gradicon("no-such-command").returncode == 2
    assert gradicon("--version").stdout.startswith("gradicon 0.")


def test_the_models_in_the_box_are_listed_with_their_terms_and_have_cards():
    listed = gradicon("models").stdout
    assert "default" in listed
    assert "CC BY-SA" in listed
    told = gradicon("models", "default").stdout
    for part in ("sha256 ", "data:", "scores", "not good at", "minutes on"):
        assert part in told
    assert_one_line_error(
        gradicon("models", "other"),
        "other: no model of this name in the box, which has default, research",
    )
