"""From a list of scans to a model, as a person does it."""

import json
from pathlib import Path

import torch

from gradicon.models import load
from test_cli import assert_one_line_error, gradicon
from training.scans_on_disk import recipe_of, scans


def test_from_a_list_to_a_model(tmp_path: Path):
    manifest = scans(tmp_path)
    (tmp_path / "r.toml").write_text(recipe_of().text)
    inputs = [
        "--recipe",
        tmp_path / "r.toml",
        "--validation",
        tmp_path / "pairs.csv",
        "-o",
        tmp_path / "data",
    ]
    told = gradicon("prepare", manifest, *inputs)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(f"{tmp_path / 'data'}: 4 images, 1 validation pairs, 0 MB")
    assert told.stderr == ""
    assert_one_line_error(
        gradicon("prepare", manifest, *inputs),
        "data exists: choose another place, or say --overwrite",
    )

    start = [
        "train",
        tmp_path / "r.toml",
        "--data",
        tmp_path / "data",
        "-o",
        tmp_path / "run",
        "--device",
        "cpu",
    ]
    told = gradicon(*start, "--max-minutes", "0")
    assert told.returncode == 0, told.stderr
    assert "stopped at step 1 of 7" in told.stdout
    assert "go on with `gradicon train --resume" in told.stdout
    told = gradicon("train", "--resume", tmp_path / "run", "--device", "cpu")
    assert told.returncode == 0, told.stderr
    assert "7 steps in" in told.stdout
    assert "best validation score" in told.stdout
    assert "Stage2 step 7 of 7" in told.stderr
    assert "penalty" in told.stderr
    assert "folds" in told.stderr
    steps = [
        json.loads(line)["step"]
        for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    ]
    assert steps == list(range(1, 8))
    assert (
        load(tmp_path / "run/model.safetensors")(*torch.rand(2, 1, 1, 24, 16))
        .on_grid((24, 16))
        .isfinite()
        .all()
    )

    told = gradicon(*start)
    assert told.returncode == 1
    assert told.stderr == (
        f"gradicon: {tmp_path / 'run'} holds a run: go on with it by --resume "
        f"{tmp_path / 'run'}, or choose another folder\n"
    )


def test_wrong_usage_of_train(tmp_path: Path):
    told = gradicon("train", "--data", tmp_path)
    assert told.returncode == 2
    assert "give RECIPE --data DATA -o RUN to start" in " ".join(told.stderr.split())
