"""The paper's published numbers, and the page that shows them beside ours."""

import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from gradicon.errors import GradiconError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from published import KINDS, Number, Ours, fill, find_ours, read_numbers, read_ours, table

RESULTS = Path(__file__).parents[1] / "docs/results"
NUMBERS = read_numbers(RESULTS / "published.json")
OURS = read_ours(RESULTS / "ours.json")
UNITS = {"Dice": "%", "mTRE": "mm", "folds": "%", "parameters": ""}
UNITS |= {f"peak memory, {when}": "MB" for when in ("inference", "training")}
UNITS |= {f"time, {when}": "ms" for when in ("inference", "training")}
# as one reads them in the paper's Tables 1, 2, 4, 6, 7 and in its text
ANCHORS = [
    ("1", "DirLab", "VoxelMorph's U-Net, 1 resolution", "mTRE", 17.582),
    ("1", "DirLab", "ICON's U-Net, 3 resolutions, augmentation", "mTRE", 2.587),
    ("2", "OAI", "before registration", "Dice", 7.6),
    ("2", "OAI", "AVSM", "Dice", 68.4),
    ("2", "OAI", "GradICON †", "folds", 0.0261),
    ("2", "OAI", "GradICON ‡", "Dice", 71.2),
    ("2", "HCP", "sm-shapes", "folds", 0.2981),
    ("2", "HCP", "GradICON †", "Dice", 78.7),
    ("2", "DirLab", "Elastix", "mTRE", 1.32),
    ("2", "DirLab", "RRN", "mTRE", 0.83),
    ("2", "DirLab", "GradICON †", "mTRE", 1.93),
    ("2", "DirLab", "GradICON ‡", "mTRE", 1.31),
    ("4", "DirLab", "affine network before VoxelMorph", "mTRE", 13.715),
    ("6", "random, 175 x 175 x 175", "GradICON-Stage1&Stage2", "parameters", 70_680_916),
    ("7", "random, 175 x 175 x 175", "ICON's U-Net", "operations, inference", 540.084),
    ("text", "all", "GradICON †", "lambda", 1.5),
    ("text", "all", "GradICON †", "learning rate", 5e-5),
]


def key(number: Number) -> tuple[str, ...]:
    return (number.table, number.place, number.dataset, *number.about, number.measure)


def test_every_table_is_whole_and_no_number_stands_twice():
    assert Counter(number.table for number in NUMBERS) == {
        "1": 16,
        "2": 65,
        "3": 65,
        "4": 2,
        "5": 12,
        "6": 30,
        "7": 6,
        "text": 33,
        "DirLab": 11,
    }
    assert len({key(number) for number in NUMBERS}) == len(NUMBERS)


@pytest.mark.parametrize(("where", "dataset", "method", "measure", "value"), ANCHORS)
def test_some_numbers_as_one_reads_them(
    where: str, dataset: str, method: str, measure: str, value: float
):
    (found,) = (
        number.value
        for number in NUMBERS
        if (number.table, number.dataset) == (where, dataset)
        and (number.method, number.measure) == (method, measure)
    )
    assert found == value


def test_units_go_with_measures_and_values_with_what_is_printed():
    for number in NUMBERS:
        assert number.unit == UNITS.get(number.measure, number.unit), number
        if number.measure.startswith("operations"):
            assert number.unit in ("GFLOP", "TFLOP")
        if not number.note:
            assert number.value == float(number.printed.replace(",", "")), number
        if number.unit == "%":
            assert 0 <= number.value <= 100


def test_who_reported_a_number_is_said_of_all_but_the_state_before_registration():
    for number in NUMBERS:
        unsaid = number.reported_by is None
        assert unsaid == (number.table in "23" and number.method == "before registration"), number
        if "GradICON" in number.method and number.table in "23":
            assert number.reported_by == "the authors"


def test_the_short_table_and_the_long_one_agree():
    short, long = (
        {
            key(number)[2:]: (number.value, number.reported_by)
            for number in NUMBERS
            if number.table == which
        }
        for which in "23"
    )
    assert short == long


def test_dirlab_s_cases_have_the_mean_that_both_publish():
    cases = [it for it in NUMBERS if it.table == "DirLab" and ", case " in it.method]
    assert len(cases) == 10
    assert round(mean(it.value for it in cases), 2) == 23.36
    (before,) = (
        it.value
        for it in NUMBERS
        if (it.table, it.dataset, it.method) == ("2", "DirLab", "before registration")
    )
    assert before == 23.36


def test_the_page_is_what_the_numbers_say():
    page = (RESULTS / "reproduce.md").read_text(encoding="utf-8")
    assert fill(page, NUMBERS, OURS) == page
    parts = re.findall(r"<!-- table (.*?) -->", page)
    assert sorted(parts) == ["1", "2 DirLab", "2 HCP", "2 OAI", "6", "7", "DirLab"]


def test_another_number_makes_another_page_and_leaves_the_text():
    page = "before\n<!-- table 2 HCP -->\nold\n<!-- end -->\nafter\n"
    one = next(it for it in NUMBERS if it.dataset == "HCP" and it.method == "GradICON ‡")
    ours = [Ours(table="2", dataset="", methods=(), kind="not yet", says="why")]
    assert fill(page, [replace(one, printed="80.5")], ours) == (
        "before\n<!-- table 2 HCP -->\n"
        "| method | transform | regularizer | similarity | Dice, % | reported by | ours |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| GradICON ‡ | DVF | GradICON | LNCC | 80.5 | the authors | *not yet*: why |\n"
        "<!-- end -->\nafter\n"
    )
    with pytest.raises(GradiconError, match="no such numbers"):
        fill(page.replace("HCP", "DRIVE"), NUMBERS, OURS)


def test_methods_of_one_name_are_told_apart():
    rows = [it for it in NUMBERS if (it.table, it.dataset) == ("2", "OAI")]
    text = table(rows, OURS)
    assert "| NiftyReg | A,B-Spline | BE | NMI | 59.7 | 0.0000 |" in text
    assert "| NiftyReg | A,B-Spline | BE | LNCC | 67.9 | 0.0068 |" in text


def test_each_entry_of_ours_is_of_a_known_kind_and_used():
    methods = {(it.table, it.method) for it in NUMBERS}
    for entry in OURS:
        assert entry.kind in KINDS
        assert all((entry.table, method) in methods for method in entry.methods), entry
        for page in re.findall(r"\]\((.*?)\)", entry.says):
            assert (RESULTS / page).is_file()


def test_two_entries_for_one_row_are_refused():
    with pytest.raises(GradiconError, match="2 entries"):
        find_ours([*OURS, *OURS], "2", "OAI", "SyN")
    with pytest.raises(GradiconError, match="0 entries"):
        find_ours([], "2", "OAI", "SyN")


def test_our_figures_are_those_of_their_pages():
    trained = json.loads((RESULTS / "ablation.json").read_text(encoding="utf-8"))
    dice = {
        ("hearts" if row["set"] == "cardiac" else "hippocampi", f"{row['dice']:.3f}")
        for row in trained["numbers"]["rows"]
    }
    said = [entry for entry in OURS if entry.table == "1" and entry.kind == "other data"]
    assert len(said) == 8
    for entry in said:
        figures = re.findall(r"([\d.]+) \((\w+)\)", entry.says)
        assert len(figures) == 2
        assert {(kind, value) for value, kind in figures} <= dice
    counted = json.loads((RESULTS / "statistics.json").read_text(encoding="utf-8"))["numbers"]
    parameters = {f"{row['parameters']:,}" for row in counted["counts"].values()}
    for entry in OURS:
        if entry.kind == "same data":
            assert entry.says.split(" parameters")[0] in parameters
