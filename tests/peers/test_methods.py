"""The programs we compare with find transforms that we read rightly: each brings the labels of the
bundled pair together.
"""

import sys
from pathlib import Path

import pytest

from gradicon.physical.lists import read_pairs
from registration.pairs import SAMPLE

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from peers import register

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(
    "method",
    ["ants", "greedy", "demons", "elastix", "convexadam", "niftyreg", "gradicon", "gradicon-alone"],
)
def test_a_method_improves_dice(tmp_path: Path, method: str):
    names = [
        SAMPLE / f"{name}.nii.gz" for name in ("fixed", "moving", "fixed_labels", "moving_labels")
    ]
    (tmp_path / "pairs.csv").write_text(
        f"fixed,moving,fixed_labels,moving_labels\n{','.join(map(str, names))}\n"
    )
    found = register(method, read_pairs(tmp_path / "pairs.csv")[0], tmp_path, threads=2)
    assert found["status"] == "done", found
    assert found["mean_dice"] > found["mean_dice_before"] + 0.1
    assert found["folds_percent"] < 1
    assert found["seconds"] > 0 < found["peak_memory_gb"]
