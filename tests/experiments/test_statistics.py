"""What a network costs is counted right, and as the paper counted it."""

import json
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from gradicon.experiments import statistics
from gradicon.experiments.run import run_study
from gradicon.experiments.statistics import (
    NETWORKS,
    PAPER,
    PAPER_SIZE,
    count_cost,
    count_operations,
)
from gradicon.experiments.study import Setting
from gradicon.models import ModelConfig

SMALL = {
    "U-Net": ModelConfig(stage=1, resolutions=1, down_channels=(2, 2), up_channels=(2, 2)),
    "Stage1": ModelConfig(stage=1, down_channels=(2, 2), up_channels=(2, 2)),
}


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(
        tmp_path, quick=True, device=torch.device("cpu"), data=None, jobs=1, tell=lambda *_: None
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_the_papers(name: str):
    assert count_cost(NETWORKS[name], 16)["parameters"] == PAPER[name]["parameters"]


@pytest.mark.parametrize("name", ["U-Net", "ICON", "Stage1", "Stage2"])
def test_operations_counted_as_the_paper_does_are_the_papers(name: str):
    assert count_cost(NETWORKS[name], PAPER_SIZE)["thop"] == pytest.approx(
        PAPER[name]["thop"], rel=1e-6 if name != "Stage2" else 5e-4
    )


def voxelmorph_by_hand(size: int, *, up: bool) -> int:
    """Multiply-adds of VoxelMorph's U-Net at size^3, whose pooling rounds odd sizes up or down."""
    sizes = [size]
    for _ in range(4):
        sizes.append((sizes[-1] + up) // 2)
    down = [(2, 16), (16, 32), (32, 32), (32, 32)]
    rising = [(32, 32), (64, 32), (64, 32), (64, 32)]
    full = [(48, 32), (32, 16), (16, 16), (16, 3)]
    work = [(*pair, n) for pair, n in zip(down, sizes[:4], strict=True)]
    work += [(*pair, n) for pair, n in zip(rising, reversed(sizes[1:]), strict=True)] + [
        (*pair, size) for pair in full
    ]
    return sum(27 * a * b * n**3 for a, b, n in work)


def test_voxelmorph_differs_from_the_paper_by_the_rounding_of_its_pooling_alone():
    assert count_cost(NETWORKS["VoxelMorph's U-Net"], PAPER_SIZE)["macs"] == voxelmorph_by_hand(
        PAPER_SIZE, up=True
    )
    assert voxelmorph_by_hand(PAPER_SIZE, up=False) == pytest.approx(
        PAPER["VoxelMorph's U-Net"]["thop"], rel=1e-5
    )


def test_one_convolution_by_hand():
    conv = nn.Conv3d(2, 5, 3, padding=1)
    image = torch.rand(1, 2, 4, 6, 8)
    by_hand = 2 * 5 * 27 * (4 * 6 * 8)
    assert count_operations(conv, lambda: conv(image)) == (2 * by_hand, by_hand)


def test_a_transposed_convolution_is_charged_by_thop_at_every_output_voxel():
    conv = nn.ConvTranspose3d(3, 7, 4, stride=2, padding=1)
    image = torch.rand(1, 3, 4, 4, 4)
    flops, thop = count_operations(conv, lambda: conv(image))
    assert flops == 2 * 3 * 7 * 4**3 * 4**3
    assert thop == 8 * flops // 2


def test_counting_leaves_no_hook_behind():
    conv = nn.Conv2d(1, 1, 3)
    image = torch.rand(1, 1, 8, 8)
    first = count_operations(conv, lambda: conv(image))
    assert count_operations(conv, lambda: conv(image)) == first
    assert not conv._forward_hooks


def test_a_run_leaves_numbers_a_table_and_a_figure(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(statistics, "NETWORKS", SMALL)
    found = json.loads(
        run_study("statistics", setting, setting.work / "out", command="c").read_text()
    )
    rows = found["numbers"]["rows"]
    assert [(row["network"], row["size"]) for row in rows] == [
        (name, size) for name in SMALL for size in (16, 24)
    ]
    for row in rows:
        for task in ("inference", "training"):
            for path in ("plain", "fast"):
                assert row[f"{task}_{path}"]["ms"] > 0
                assert row[f"{task}_{path}"]["mb"] is None
    text = (setting.work / "out/statistics.md").read_text()
    assert "| Stage1 | 24^3 |" in text
    assert "88.2 ms, 2,934 MB" in text, "the paper's"
    assert (setting.work / "out/statistics.png").stat().st_size > 10_000


def test_the_figure_shows_memory_where_it_was_measured():
    cell = {"ms": 3.0, "mb": 40.0}
    row = {"flops": 1}
    tasks = {
        f"{task}_{path}": cell for task in ("inference", "training") for path in ("plain", "fast")
    }
    rows = [{"network": name, "size": size, **row, **tasks} for name in PAPER for size in (64, 96)]
    counts = {name: {"parameters": 1, "flops": 2, "macs": 1, "thop": 3} for name in PAPER}
    numbers = json.loads(
        json.dumps(
            {
                "paper": {"size": 175, "device": "d", "networks": PAPER},
                "counts": counts,
                "rows": rows,
            }
        )
    )
    figure = Figure(layout="constrained")
    statistics.draw(numbers, figure)
    assert [axes.get_title() for axes in figure.axes] == [
        "Inference, ms (dashed: plain)",
        "Inference, peak MB",
    ]
    assert "3.0 ms, 40 MB" in statistics.table(numbers)
    figure.canvas.draw()


COMMITTED = Path(__file__).parents[2] / "docs/results/statistics.json"


def test_a_network_has_a_row_only_where_numbers_are():
    """The committed result was measured before ICON's network was there."""
    numbers = json.loads(COMMITTED.read_text(encoding="utf-8"))["numbers"]
    assert "ICON" not in statistics.table(numbers)
    numbers["counts"]["ICON"] = count_cost(NETWORKS["ICON"], PAPER_SIZE)
    numbers["paper"]["networks"]["ICON"] = PAPER["ICON"]
    rows = [line for line in statistics.table(numbers).splitlines() if "ICON" in line]
    assert rows == [
        "| ICON | 53,010,687 | 53,010,687 | 194.824 G | 97.412 G | 678.513 G | 678.513 G |",
        "| ICON | 96.4 ms, 2,918 MB | 573.6 ms, 8,082 MB |",
    ]
    figure = Figure(layout="constrained")
    statistics.draw(numbers, figure)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["VoxelMorph's U-Net", "U-Net", "Stage1", "Stage2"]


def test_what_does_not_fit_is_left_out():
    def refuse() -> object:
        raise torch.OutOfMemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_inference", lambda *_, **__: refuse)
        found = statistics._timed(SMALL["U-Net"], 16, torch.device("cpu"), statistics.Effort(0, 1))
    assert found["inference_fast"] == {"ms": None, "mb": None}
    assert found["training_fast"]["ms"] > 0
