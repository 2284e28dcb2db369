"""Whole runs, small ones."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradicon.core.sampling import unit_grid
from gradicon.models import Preprocessing, load, read_header
from gradicon.training.batches import Inputs
from gradicon.training.config import Recipe
from gradicon.training.dataset import Dataset
from gradicon.training.execute import EagerExecutor
from gradicon.training.finite import NonFiniteLossError
from gradicon.training.pairs import Pairs
from gradicon.training.prepare import prepare
from gradicon.training.processes import Machine
from gradicon.training.runlog import Report
from gradicon.training.state import read_checkpoint
from gradicon.training.step import Scalars
from gradicon.training.trainer import resume, train
from training.scans_on_disk import prepared, recipe_of, scans, weights, write_image

CPU = Machine("cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("scans"))


@pytest.fixture(scope="module")
def done(data: Path) -> Path:
    """A run that never stopped."""
    outcome = train(recipe_of(), data, data.parent / "done", machine=CPU, command="the command")
    assert (outcome.step, outcome.steps, outcome.stopped) == (7, 7, "")
    return data.parent / "done"


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_both_stages_leave_what_they_should(done: Path, data: Path):
    names = {
        "recipe.toml",
        "last.ckpt",
        "metrics.jsonl",
        "tensorboard",
        "stage1.safetensors",
        "best.safetensors",
        "model.safetensors",
    }
    assert {path.name for path in done.iterdir()} == names
    assert [line["stage"] for line in lines(done)] == [1, 1, 1, 1, 2, 2, 2]
    assert {"loss", "similarity", "penalty", "folds", "magnitude"} <= set(lines(done)[0])
    judged = [line["step"] for line in lines(done) if "validation_dice" in line]
    assert judged == [3, 4, 6, 7]
    assert lines(done)[2]["validation_landmark_error_mm"] > 0
    header = read_header(done / "model.safetensors")
    assert header.config.stage == 2
    assert header.training is not None
    assert header.training.command == "the command"
    assert header.training.recipe == (done / "recipe.toml").read_text()
    assert header.training.dataset == Dataset.open(data).sha256
    assert header.training.steps == 7
    assert header.preprocessing == Preprocessing(shape=(24, 16), augmented=True)
    assert read_header(done / "stage1.safetensors").config.stage == 1


def test_stage2_starts_from_the_weights_of_stage1(data: Path, tmp_path: Path):
    recipe = recipe_of(("learning_rate = 0.005", "learning_rate = 1e-12"))
    train(recipe, data, tmp_path / "run", machine=CPU)
    before = weights(tmp_path / "run/stage1.safetensors")
    after = weights(tmp_path / "run/model.safetensors")
    for name, value in before.items():
        if "running" not in name and "num_batches" not in name:
            torch.testing.assert_close(
                after[name.replace("net.", "net.first.", 1)], value, atol=1e-9, rtol=0
            )
    a, b = (torch.rand(1, 1, 24, 16) for _ in range(2))
    assert set(after) > {name.replace("net.", "net.first.", 1) for name in before}
    assert load(tmp_path / "run/model.safetensors")(a, b).on_grid((24, 16)).shape == (1, 2, 24, 16)


def test_a_model_may_go_on_with_a_last_network_that_is_asked_again(
    done: Path, data: Path, tmp_path: Path
):
    more = ("resolutions = 2", "resolutions = 2\nrepeats = 3")
    slow = ("learning_rate = 0.005", "learning_rate = 1e-12")
    recipe = recipe_of(more, slow, ("stage1_steps = 4", "stage1_steps = 0"))
    train(recipe, data, tmp_path / "run", machine=CPU, start=done / "model.safetensors")
    after = load(tmp_path / "run/model.safetensors")
    assert after.config.repeats == 3
    before = weights(done / "model.safetensors")
    for name, value in weights(tmp_path / "run/model.safetensors").items():
        if "running" not in name and "num_batches" not in name:
            torch.testing.assert_close(value, before[name], atol=1e-9, rtol=0)


@pytest.fixture(scope="module")
def icon(data: Path) -> Path:
    """ICON, progressively, so slowly that its second stage leaves the weights of the first."""
    run = data.parent / "icon"
    recipe = icon_recipe(("learning_rate = 0.005", "learning_rate = 1e-12"))
    assert train(recipe, data, run, machine=CPU).stopped == ""
    return run


def icon_recipe(*changes: tuple[str, str]) -> Recipe:
    penalty = 'sigma = 2\nregularizer = "icon"\nweight = 500'
    return recipe_of(("resolutions = 2", 'composition = "icon"'), ("sigma = 2", penalty), *changes)


def test_icon_is_trained_at_half_resolution_first(icon: Path):
    assert [line["stage"] for line in lines(icon)] == [1, 1, 1, 1, 2, 2, 2]
    assert read_header(icon / "stage1.safetensors").config.title == "ICON at half resolution"
    assert read_header(icon / "model.safetensors").config.title == "ICON"
    before = weights(icon / "stage1.safetensors")
    after = weights(icon / "model.safetensors")
    carried = {name.replace("net.", "net.first.", 1): value for name, value in before.items()}
    assert set(after) > set(carried)
    for name, value in carried.items():
        if "running" not in name and "num_batches" not in name:
            torch.testing.assert_close(after[name], value, atol=1e-9, rtol=0)
    assert {name.partition("dense.")[0] for name in after} == {
        "net.first.net.first.",
        "net.first.net.second.",
        "net.second.",
    }


def test_icon_learns_in_all_its_networks_and_goes_on_after_a_stop(
    icon: Path, data: Path, tmp_path: Path
):
    run = tmp_path / "run"
    recipe = icon_recipe(("stage1_steps = 4", "stage1_steps = 0"))
    start = icon / "stage1.safetensors"
    assert train(recipe, data, run, start=start, machine=CPU, max_minutes=0).stopped == "time"
    assert resume(run, machine=CPU).stopped == ""
    before, after = weights(icon / "model.safetensors"), weights(run / "model.safetensors")
    for name, value in before.items():
        if "running" not in name and "num_batches" not in name:
            assert not torch.equal(after[name], value), name


def test_icon_does_not_start_from_another_network(done: Path, data: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="composition = gradicon, but the recipe says icon"):
        train(icon_recipe(), data, tmp_path / "run", start=done / "stage1.safetensors", machine=CPU)


@pytest.mark.parametrize("begin", ["stage1.safetensors", "model.safetensors"])
def test_a_run_can_start_from_a_trained_model(done: Path, data: Path, tmp_path: Path, begin: str):
    slow = recipe_of(
        ("learning_rate = 0.005", "learning_rate = 1e-12"), ("stage1_steps = 4", "stage1_steps = 0")
    )
    train(slow, data, tmp_path / "run", start=done / begin, machine=CPU, max_minutes=0)
    assert resume(tmp_path / "run", machine=CPU).stopped == ""
    before = weights(done / begin)
    after = weights(tmp_path / "run/model.safetensors")
    inner = "net.first." if begin == "stage1.safetensors" else "net."
    for name, value in before.items():
        if "running" not in name and "num_batches" not in name:
            torch.testing.assert_close(
                after[name.replace("net.", inner, 1)], value, atol=1e-9, rtol=0
            )
    found = read_header(tmp_path / "run/model.safetensors")
    assert found.config.stage == 2
    assert found.training is not None
    assert found.training.started_from == read_header(done / begin).sha256


def test_a_model_that_the_recipe_cannot_go_on_with_is_refused(
    done: Path, data: Path, tmp_path: Path
):
    with pytest.raises(ValueError, match="stage1_steps = 0"):
        train(recipe_of(), data, tmp_path / "run", start=done / "model.safetensors", machine=CPU)
    wider = recipe_of(("down_channels = [4, 8]", "down_channels = [5, 8]"))
    with pytest.raises(ValueError, match=r"down_channels = \[4, 8\], but the recipe says \[5, 8\]"):
        train(wider, data, tmp_path / "run", start=done / "stage1.safetensors", machine=CPU)
    assert not (tmp_path / "run").exists()


def test_the_same_run_twice_is_the_same_bit_for_bit(done: Path, data: Path, tmp_path: Path):
    torch.manual_seed(99)  # nothing global matters
    train(recipe_of(), data, tmp_path / "run", machine=CPU)
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()
    other = recipe_of(("batch_size = 2", "batch_size = 2\nseed = 1"))
    train(other, data, tmp_path / "other", machine=CPU)
    assert lines(tmp_path / "other")[0]["similarity"] != lines(done)[0]["similarity"]


@pytest.mark.parametrize("stop_after", [1, 4, 5])
def test_a_run_that_stops_and_goes_on_is_the_same_bit_for_bit(
    done: Path, data: Path, tmp_path: Path, stop_after: int
):
    """Any step will do: within Stage1, at its end, and within Stage2; checkpoints are due every
    third step.
    """

    def fail(report: Report) -> None:
        if report.step > stop_after:
            raise KeyError("killed")

    run = tmp_path / "run"
    with pytest.raises(KeyError):
        train(recipe_of(), data, run, machine=CPU, on_log=fail)
    (run / ".part123-last.ckpt").write_bytes(b"half a checkpoint")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": ')
    assert resume(run, machine=CPU).stopped == ""
    assert (run / "metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()
    for name in ("stage1", "best", "model"):
        mine = weights(run / f"{name}.safetensors")
        theirs = weights(done / f"{name}.safetensors")
        assert all(torch.equal(mine[key], value) for key, value in theirs.items())
    assert not list(run.glob(".part*"))


def test_learning_happens(tmp_path: Path):
    """Discs of two sizes in several places: the loss falls by half, on a pair that is judged alone
    too, without folds.
    """
    manifest = scans(tmp_path)
    x = unit_grid((24, 16), like=torch.zeros(()))[0].numpy()
    for i in range(4):
        distance = np.hypot(x[0] - (0.44, 0.56)[i % 2], x[1] - (0.45, 0.55)[i // 2])
        write_image(
            tmp_path / f"i{i}.nii.gz",
            (1 / (1 + np.exp(40 * (distance - 0.24 - 0.03 * i)))).astype(np.float32),
        )
    often = [
        (f"{name}_every = {n}", f"{name}_every = 5")
        for name, n in (("log", 1), ("checkpoint", 3), ("validate", 3))
    ]
    longer = [
        ("stage1_steps = 4", "stage1_steps = 60"),
        ("stage2_steps = 3", "stage2_steps = 20"),
        ("augment = true", "augment = false"),
    ]
    recipe = recipe_of(
        *often, *longer, ("sigma = 2", 'similarity = "mse"'), ("_rate = 0.005", "_rate = 0.002")
    )
    prepare(manifest, recipe, tmp_path / "data", validation=tmp_path / "pairs.csv")
    train(recipe, tmp_path / "data", tmp_path / "run", machine=CPU)
    told = lines(tmp_path / "run")
    losses = [line["loss"] for line in told]
    assert sum(losses[-4:]) < 0.5 * sum(losses[:4])
    assert told[-1]["validation_similarity"] < 0.5 * told[0]["validation_similarity"]
    assert told[-1]["validation_folds"] == 0


def test_labels_and_landmarks_in_training(data: Path, tmp_path: Path):
    recipe = recipe_of(("sigma = 2", "sigma = 2\nlabel_weight = 1\nlandmark_weight = 0.01"))
    train(recipe, data, tmp_path / "run", machine=CPU)
    assert {"labels", "landmarks"} <= set(lines(tmp_path / "run")[0])


def test_three_dimensions(tmp_path: Path):
    manifest = scans(tmp_path, 2, (16, 12, 14))
    recipe = recipe_of(
        ("shape = [24, 16]", "shape = [12, 14, 12]"), ("sigma = 2", "sigma = 2\nlabel_weight = 1")
    )
    prepare(manifest, recipe, tmp_path / "data", validation=tmp_path / "pairs.csv")
    train(recipe, tmp_path / "data", tmp_path / "run", machine=CPU)
    assert [line["stage"] for line in lines(tmp_path / "run")] == [1, 1, 1, 1, 2, 2, 2]
    assert load(tmp_path / "run/model.safetensors").config.dimension == 3


def test_without_tensorboard_it_says_so_and_goes_on(
    done: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    train(recipe_of(), data, tmp_path / "run", machine=CPU)
    assert [record.message for record in caplog.records] == [
        "tensorboard is not installed: curves are in metrics.jsonl only"
    ]
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()


def test_a_recipe_for_a_gpu_trains_in_float32_on_a_cpu(done: Path, data: Path, tmp_path: Path):
    recipe = recipe_of(("batch_size = 2", 'batch_size = 2\nprecision = "bf16-mixed"'))
    train(recipe, data, tmp_path / "run", machine=CPU)
    assert lines(tmp_path / "run") == lines(done)


def test_a_run_is_trained_by_one_process_at_a_time(data: Path, tmp_path: Path):
    run = tmp_path / "run"
    train(recipe_of(), data, run, machine=CPU, max_minutes=0)
    before = (run / "last.ckpt").read_bytes()
    hold = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", hold, str(run / "recipe.toml")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="another process is training this run"):
            resume(run, machine=CPU)
        assert (run / "last.ckpt").read_bytes() == before
        other.kill()
    assert resume(run, machine=CPU).stopped == ""


def test_time_is_up(done: Path, data: Path, tmp_path: Path):
    outcome = train(recipe_of(), data, tmp_path / "run", machine=CPU, max_minutes=0)
    assert (outcome.step, outcome.stopped) == (1, "time")
    assert not (tmp_path / "run/model.safetensors").exists()
    assert resume(tmp_path / "run", machine=CPU).stopped == ""
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()


def test_a_loss_that_is_not_finite_stops_the_run_and_overwrites_nothing(data: Path, tmp_path: Path):
    recipe = recipe_of(
        ("learning_rate = 0.005", "learning_rate = 1e30"),
        ("checkpoint_every = 3", "checkpoint_every = 1"),
    )
    run = tmp_path / "run"
    with pytest.raises(NonFiniteLossError) as error:
        train(recipe, data, run, machine=CPU)
    prepared_data = Dataset.open(data)
    first = int(str(error.value).split()[1].strip(":"))
    for index in (0, 1):
        a, b = Pairs.of(prepared_data, 0).draw(first, index)
        assert f"{prepared_data.names[a]} and {prepared_data.names[b]}" in str(error.value)
    assert "\n" not in str(error.value)
    kept = read_checkpoint(run)
    assert kept.step < first
    assert all(torch.isfinite(value).all() for value in kept.model.values())


@pytest.mark.parametrize(
    ("when", "message"), [(6, "step 6: the network is"), (5, "step 6: the loss is")]
)
def test_weights_that_are_not_finite_are_never_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int, message: str
):
    """The loss of a step may be finite, and the gradient not. A checkpoint that is due finds it, or
    else the next loss does.
    """
    plain = EagerExecutor.run_step

    def planted(self: EagerExecutor, step: int, inputs: Inputs, *, folds: bool = False) -> Scalars:
        scalars = plain(self, step, inputs, folds=folds)
        if step == when:
            next(self._module.parameters()).data.view(-1)[0] = torch.nan
        return scalars

    monkeypatch.setattr(EagerExecutor, "run_step", planted)
    never = ("validate_every = 3", "validate_every = 1000")
    with pytest.raises(NonFiniteLossError, match=f"{message} not finite after"):
        train(recipe_of(never), data, tmp_path / "run", machine=CPU)
    assert read_checkpoint(tmp_path / "run").step == 4


def test_a_run_is_not_started_where_something_is(done: Path, data: Path, tmp_path: Path):
    with pytest.raises(FileExistsError, match="holds a run: go on with it by --resume"):
        train(recipe_of(), data, done, machine=CPU)
    (tmp_path / "precious").write_text("work")
    with pytest.raises(FileExistsError, match="is no folder of a run"):
        train(recipe_of(), data, tmp_path, machine=CPU)


def test_resume_refuses_what_is_not_the_same(done: Path, data: Path, tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(done, run)
    with pytest.raises(ValueError, match="not the prepared data that .* was started with"):
        resume(run, data=prepared(tmp_path / "other", count=5), machine=CPU)
    with pytest.raises(FileNotFoundError, match="no prepared data here"):
        resume(run, data=tmp_path, machine=CPU)
    with pytest.raises(FileNotFoundError, match="nothing to resume"):
        resume(tmp_path, machine=CPU)
    with (run / "recipe.toml").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(ValueError, match="recipe.toml has changed since the run began"):
        resume(run, machine=CPU)


def test_a_damaged_checkpoint_is_refused(done: Path, tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(done, run)
    content = bytearray((run / "last.ckpt").read_bytes())
    for damage in (content[: len(content) // 2], content[:-100] + b"x" + content[-99:]):
        (run / "last.ckpt").write_bytes(damage)
        with pytest.raises(ValueError, match="last.ckpt: damaged") as error:
            resume(run, machine=CPU)
        assert "\n" not in str(error.value)
    (run / "last.ckpt").write_bytes(b"something else")
    with pytest.raises(ValueError, match="not a checkpoint of a run"):
        resume(run, machine=CPU)


def test_what_the_data_lack_is_said_before_training(data: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="a batch of 2 cannot be shared by 3 processes"):
        train(recipe_of(), data, tmp_path / "run", machine=replace(CPU, devices=3))
    with pytest.raises(
        ValueError, match=r"prepared with shape = \[24, 16\], but the recipe says \[24, 24\]"
    ):
        train(recipe_of(("[24, 16]", "[24, 24]")), data, tmp_path / "run", machine=CPU)
    assert not (tmp_path / "run").exists()
