"""`gradicon experiment` as a person runs it: what it writes, shows again, and refuses."""

import json
from pathlib import Path

import pytest
import torch

from gradicon.experiments import implicit
from gradicon.experiments.run import run_study, show_study
from gradicon.experiments.study import Setting
from test_cli import assert_one_line_error, gradicon


def test_a_study_is_run_and_shown_again(tmp_path: Path):
    told = gradicon("experiment", "implicit", "--quick", "-o", tmp_path / "a")
    assert told.returncode == 0, told.stderr
    result = json.loads((tmp_path / "a/implicit.json").read_text())
    assert (result["experiment"], result["size"]) == ("implicit", "quick")
    assert result["command"].startswith("gradicon experiment implicit --quick")
    assert "CPU" in result["hardware"]
    shown = gradicon("experiment", "--show", tmp_path / "a/implicit.json", "-o", tmp_path / "b")
    assert shown.returncode == 0, shown.stderr
    for name in ("implicit.md", "implicit.png"):
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "a" / name).read_bytes()


def test_what_cannot_be_run_is_one_line(tmp_path: Path):
    assert_one_line_error(
        gradicon("experiment", "ablation", "-o", tmp_path / "new"),
        "say where the data sets are with --data, or take --quick",
    )
    assert not (tmp_path / "new").exists()
    assert gradicon("experiment", "-o", tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such result"),
        ("{", "not the result of an experiment"),
        ("[]", "not the result of an experiment"),
        ('{"experiment": "cooking"}', "unknown experiment 'cooking'"),
    ],
)
def test_what_is_no_result_cannot_be_shown(tmp_path: Path, text: str | None, message: str):
    if text is not None:
        (tmp_path / "result.json").write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        show_study(tmp_path / "result.json", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_gpu_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def run(setting: Setting) -> None:
        del setting
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nand more lines")

    monkeypatch.setattr(implicit, "run", run)
    setting = Setting(tmp_path, True, torch.device("cpu"), None, 1, lambda what, part: None)
    with pytest.raises(
        ValueError, match=r"^the GPU's memory is full: use fewer --jobs; .* goes on from it$"
    ):
        run_study("implicit", setting, tmp_path, command="")
