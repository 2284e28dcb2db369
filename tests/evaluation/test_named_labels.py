"""The labels that count in a table: means worked out by hand, and wrong files named."""

import json
from pathlib import Path

import pytest

from gradicon.cohort.record import Record
from gradicon.errors import GradiconError
from gradicon.evaluation.evaluate import table_rows
from gradicon.evaluation.named_labels import only, read_names
from gradicon.evaluation.table import summarise, write_table
from registration.pairs import SAMPLE
from test_cli import assert_one_line_error, gradicon

ROOT = Path(__file__).parents[2]
PAIR = {
    "dice": {"1": 0.9, "2": 0.5, "7": 0.1},
    "dice_before": {"1": 0.6, "2": 0.2, "7": 0.0},
    "mean_dice": 0.5,
    "mean_dice_before": 0.8 / 3,
    "hd95_mm": {"1": 3.0},
    "mean_hd95_mm": 3.0,
    "lost_labels": 2,
    "seconds": 4.0,
}


def test_only_the_labels_that_count_count():
    kept = only(PAIR, {2: "tail", 1: "head", 5: "neither has it"})
    assert kept["dice"] == {"tail": 0.5, "head": 0.9}
    assert kept["dice_before"] == {"tail": 0.2, "head": 0.6}
    assert kept["hd95_mm"] == {"head": 3.0}
    assert kept["mean_dice"] == pytest.approx(0.7)
    assert kept["mean_dice_before"] == pytest.approx(0.4)
    assert kept["mean_hd95_mm"] == 3.0
    assert kept["lost_labels"] == 1
    assert kept["seconds"] == 4.0
    assert PAIR["dice"] == {"1": 0.9, "2": 0.5, "7": 0.1}


def test_a_label_without_a_surface_leaves_no_distance():
    kept = only(PAIR, {7: "tiny"})
    assert kept["mean_dice"] == 0.1
    assert kept["lost_labels"] == 1
    assert "mean_hd95_mm" not in kept
    assert "hd95_mm" not in kept


def test_a_pair_without_the_labels_has_no_measure_of_them():
    assert only(PAIR, {3: "absent"}) == {"seconds": 4.0}
    assert only({"seconds": 4.0}, {1: "head"}) == {"seconds": 4.0}


def test_the_table_has_their_names(tmp_path: Path):
    records = [Record("a", status="done", result=PAIR), Record("b", status="waiting")]
    rows = table_rows(records, {1: "head", 2: "tail"})
    assert [row["pair"] for row in rows] == ["a", "b"]
    assert summarise(rows)["dice_each"]["head"]["mean"] == 0.9
    write_table(tmp_path, rows, {})
    written = json.loads((tmp_path / "table.json").read_text())
    assert set(written["summary"]["dice_each"]) == {"head", "tail"}
    assert written["summary"]["mean_dice"]["mean"] == pytest.approx(0.7)
    assert table_rows(records)[0]["mean_dice"] == 0.5


def test_hcp_has_the_28_regions():
    names = read_names(ROOT / "recipes/paper/hcp_labels.toml")
    assert list(names) == list(range(1, 29))
    sides = {
        side: {n.removesuffix(side) for n in names.values() if n.endswith(side)}
        for side in (" Left", " Right")
    }
    assert sides[" Left"] == sides[" Right"]
    assert len(sides[" Left"]) == 11
    assert names[15] == "Brainstem"
    assert names[20] == "Hippocampal Formation Left"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 = ", "not a TOML file"),
        ('1 = "a"', r"expected a section \[labels\]"),
        ("[labels]", r"expected a section \[labels\]"),
        ('[labels]\nhead = "1"', 'expected lines such as 1 = "name", got head'),
        ("[labels]\n1 = 2", 'expected lines such as 1 = "name", got 1 = 2'),
        ('[labels]\n1 = "a"\n2 = "a"', "two labels are called a"),
    ],
)
def test_files_that_name_no_labels(tmp_path: Path, text: str, message: str):
    (tmp_path / "labels.toml").write_text(text)
    with pytest.raises(GradiconError, match=message):
        read_names(tmp_path / "labels.toml")
    with pytest.raises(FileNotFoundError, match="no such file of labels"):
        read_names(tmp_path / "none.toml")


def test_the_command(tmp_path: Path):
    """Labels may be chosen after the work: no pair is registered again."""
    (tmp_path / "labels.toml").write_text('[labels]\n2 = "posterior"\n')
    files = ("fixed", "moving", "fixed_labels", "moving_labels")
    row = ",".join(str(SAMPLE / f"{name}.nii.gz") for name in files)
    (tmp_path / "pairs.csv").write_text(f"{','.join(files)}\n{row}\n")
    arguments = [
        tmp_path / "pairs.csv",
        "-o",
        tmp_path / "table",
        "--refine",
        "0",
        "--device",
        "cpu",
    ]
    assert gradicon("evaluate", *arguments).returncode == 0
    (record,) = (tmp_path / "table/pairs").glob("*/record.json")
    before = record.read_bytes()
    whole = json.loads((tmp_path / "table/table.json").read_text())
    told = gradicon("evaluate", *arguments, "--labels", tmp_path / "labels.toml")
    assert told.returncode == 0, told.stderr
    chosen = json.loads((tmp_path / "table/table.json").read_text())
    assert chosen["records"][0]["dice"] == {"posterior": whole["records"][0]["dice"]["2"]}
    assert chosen["summary"]["mean_dice"]["mean"] == whole["records"][0]["dice"]["2"]
    assert record.read_bytes() == before
    (tmp_path / "labels.toml").write_text('[labels]\n99 = "none"\n')
    told = gradicon("evaluate", *arguments, "--labels", tmp_path / "labels.toml")
    assert "warning: no pair has any of the labels" in told.stderr
    told = gradicon("evaluate", *arguments, "--labels", tmp_path / "none.toml")
    assert_one_line_error(told, "none.toml: no such file of labels")
