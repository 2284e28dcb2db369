"""Several processes: the same training as one.
Killed processes: the same training as undisturbed.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gradicon.training.processes import Machine
from gradicon.training.recipe import read_recipe
from gradicon.training.state import read_checkpoint
from gradicon.training.trainer import resume, train
from training.scans_on_disk import RECIPE, prepared, recipe_of

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "gradicon.training", *map(str, arguments), "--device", "cpu"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        timeout=120,
    )


def recipe_file(path: Path, *changes: tuple[str, str]) -> Path:
    path.write_text(recipe_of(*changes).text)
    return path


def test_two_processes_train_as_one_does(tmp_path: Path):
    """Two processes with one pair each, against one with two: parameters, BatchNorm's statistics
    and what is logged.

    At the paper's learning rate: Adam makes steps of that size even of gradients that are nothing
    but rounding, such as those of biases before BatchNorm."""
    data = prepared(tmp_path)
    steps = ("stage1_steps = 4", "stage1_steps = 3"), ("stage2_steps = 3", "stage2_steps = 0")
    recipe = recipe_file(
        tmp_path / "r.toml", *steps, ("learning_rate = 0.005", "learning_rate = 5e-5")
    )
    train(read_recipe(recipe), data, tmp_path / "one", machine=Machine("cpu"))
    told = run(recipe, "--data", data, "-o", tmp_path / "two", "--devices", "2")
    assert told.returncode == 0, told.stderr
    assert "Warning" not in told.stderr
    assert "deprecated" not in told.stderr
    one, two = (read_checkpoint(tmp_path / name) for name in ("one", "two"))
    assert (one.step, two.step) == (3, 3)
    for name, value in one.model.items():
        torch.testing.assert_close(two.model[name], value, atol=1e-6, rtol=0, msg=name)
    losses = [
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]
    assert len(losses[0]) == len(losses[1]) == 3
    for a, b in zip(*losses, strict=True):
        assert a == pytest.approx(b, abs=1e-5)


def test_killed_at_any_moment_and_resumed_it_is_the_same_bit_for_bit(tmp_path: Path):
    data = prepared(tmp_path)
    recipe = recipe_file(
        tmp_path / "r.toml",
        ("stage1_steps = 4", "stage1_steps = 30"),
        ("stage2_steps = 3", "stage2_steps = 30"),
    )
    train(read_recipe(recipe), data, tmp_path / "whole", machine=Machine("cpu"))
    moments = random.Random()
    killed = tmp_path / "killed"
    seen = list[int]()
    arguments: list[str | Path] = [recipe, "--data", data, "-o", killed]
    for latest in (20, 35, 55):
        process = subprocess.Popen(
            command(*arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        _wait_for_step(process, killed / "metrics.jsonl", latest - moments.randrange(10))
        time.sleep(moments.uniform(0, 0.03))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        seen.append(read_checkpoint(killed).stage)
        arguments = ["--resume", killed]
    assert run("--resume", killed).returncode == 0
    assert set(seen) == {1, 2}
    assert (killed / "metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()
    one = read_checkpoint(killed)
    two = read_checkpoint(tmp_path / "whole")
    assert all(torch.equal(one.model[name], value) for name, value in two.model.items())
    assert not list(killed.glob(".part*"))


def _wait_for_step(process: subprocess.Popen[bytes], metrics: Path, step: int) -> None:
    while process.poll() is None and (
        not metrics.exists() or metrics.read_bytes().count(b"\n") < step
    ):
        time.sleep(0.002)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_checkpoint_of_the_step_it_was_at(tmp_path: Path, number: signal.Signals):
    data = prepared(tmp_path)
    long = (
        ("stage1_steps = 4", "stage1_steps = 100000"),
        ("checkpoint_every = 3", "checkpoint_every = 100000"),
    )
    recipe = recipe_file(tmp_path / "r.toml", *long)
    process = subprocess.Popen(
        command(recipe, "--data", data, "-o", tmp_path / "run"),
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    metrics = tmp_path / "run/metrics.jsonl"
    while not metrics.exists() or metrics.stat().st_size < 2000:
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    step = read_checkpoint(tmp_path / "run").step
    assert step > 0
    assert f"stopped at step {step} of 100003" in errors
    assert "go on with `python -m gradicon.training --resume" in errors
    assert json.loads(metrics.read_text().splitlines()[-1])["step"] == step


def test_a_full_disk_is_one_line_and_the_old_checkpoint_stays(tmp_path: Path):
    """A limit on the size of files stands in for a full disk: once Stage2 is on its way, its
    checkpoint does not fit.
    """
    data = prepared(tmp_path)
    recipe = recipe_file(tmp_path / "r.toml")
    train(read_recipe(recipe), data, tmp_path / "whole", machine=Machine("cpu"))
    blocks = (tmp_path / "whole/last.ckpt").stat().st_size // 1024 - 2
    limited = (
        f"trap '' XFSZ; ulimit -f {blocks}; exec "
        f"{' '.join(command(recipe, '--data', data, '-o', tmp_path / 'run'))}"
    )
    told = subprocess.run(
        ["bash", "-c", limited], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert told.returncode == 1
    last = told.stderr.strip().splitlines()[-1]
    assert last.startswith("gradicon: ")
    assert (
        "last.ckpt: could not be written (File too large): the last checkpoint is as it was" in last
    )
    assert "Traceback" not in told.stderr
    assert not list((tmp_path / "run").glob(".part*"))
    kept = read_checkpoint(tmp_path / "run")
    assert (kept.stage, kept.step) == (
        2,
        4,
    )  # without Adam's moments, the first one of Stage2 was small enough
    assert resume(tmp_path / "run", machine=Machine("cpu")).stopped == ""
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()


def test_errors_are_one_line_without_the_command_line_packages(tmp_path: Path):
    (tmp_path / "r.toml").write_text(RECIPE.replace("sigma", "sigmar"))
    told = run(tmp_path / "r.toml", "--data", tmp_path, "-o", tmp_path / "run")
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert "r.toml: [loss] unknown name 'sigmar'" in told.stderr
