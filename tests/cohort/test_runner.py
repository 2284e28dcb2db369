"""What counts and what is done anew; nothing stops the rest; no work twice."""

import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import SimpleITK as sitk

from cohort.cohorts import Stub, listed, stub
from gradicon.cohort.batch import Batch
from gradicon.cohort.key import How
from gradicon.cohort.record import RECORD, Record
from gradicon.cohort.runner import run, take_stock
from gradicon.errors import GradiconError
from gradicon.models import ModelConfig, build
from gradicon.models.checkpoint import save
from gradicon.physical.lists import Pair
from gradicon.registration.options import Options
from gradicon.registration.result.measures import Measure


def _measure(before: float | None, after: float) -> Measure:
    return Measure("", "", "", "lower", "", ".3f", before, after)


OUTCOME = SimpleNamespace(
    measures={
        "dissimilarity": _measure(0.5, 0.25),
        "folds": _measure(None, 0.0),
        "inverse_error_mean": _measure(None, 0.1),
    },
    found=SimpleNamespace(seconds=1.5),
)


def statuses(work: Stub, pairs: list[Pair], *, again: bool = False) -> tuple[list[str], str]:
    """What becomes of the pairs, and the line about what is done anew."""
    stock = take_stock(work, pairs, again=again)
    return [record.status for record in run(stock)], stock.note


def write_report(fixed: Path, moving: Path, out: Path, *more: object, **named: object) -> object:
    """In place of a registration."""
    out.mkdir(parents=True)
    (out / "report.json").write_text("{}")
    return OUTCOME


@pytest.mark.usefixtures("unhooked")
def test_a_thousand_finished_pairs_resume_without_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pairs = listed(tmp_path, 1000)
    work = Batch(Options(model="none"), tmp_path / "out")
    monkeypatch.setattr("gradicon.cohort.batch.register_files", write_report)
    run(take_stock(work, pairs))
    before = (tmp_path / "out/summary.csv").read_text()
    assert before.count("done") == 1000
    for name in ("gradicon.cohort.batch.register_files", "hashlib.file_digest"):
        monkeypatch.setattr(name, Mock(side_effect=AssertionError(f"{name} was called")))
    monkeypatch.setattr(sitk, "ReadImage", Mock(side_effect=AssertionError("an image was read")))
    opened: Counter[str] = Counter()
    whole = io.open

    def counted(file: object, *more: object, **named: object) -> object:
        opened[str(file)] += 1
        return whole(file, *more, **named)  # type: ignore[call-overload]

    parsed = Mock(wraps=json.loads)
    monkeypatch.setattr("io.open", counted)
    monkeypatch.setattr("gradicon.cohort.record.json.loads", parsed)
    stock = take_stock(work, pairs)
    assert stock.note == ""
    run(stock)
    assert parsed.call_count <= 1001  # the options, too
    records = [count for name, count in opened.items() if name.endswith(RECORD)]
    assert records == [1] * 1000
    assert len(opened) == 1002  # and the two files of the summary
    monkeypatch.undo()
    assert (tmp_path / "out/summary.csv").read_text() == before


def test_summaries_of_quick_pairs_do_not_take_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A hundredth of a second a pair, a second a summary: 1,000 pairs have one at the end, and
    further ones after each twentyfold of its time.
    """
    clock = 0.0

    class Slow(Stub):
        def summarise(self, records: Sequence[Record], how: How) -> None:
            nonlocal clock
            clock += 1
            super().summarise(records, how)

    def pass_time(pair: Pair) -> None:
        nonlocal clock
        clock += 0.05

    monkeypatch.setattr("gradicon.cohort.runner.monotonic", lambda: clock)
    work = Slow(Options(model="none"), tmp_path / "out", pass_time)
    run(take_stock(work, listed(tmp_path, 1000)))
    assert len(work.summaries) == 4  # after 1 s, 22 s, 43 s, and the end
    assert work.summaries[-1] == ["done"] * 1000
    assert "waiting" in work.summaries[0]


def test_files_count_by_their_content(tmp_path: Path):
    pairs = listed(tmp_path, 4)
    work = stub(tmp_path / "out")
    statuses(work, pairs)
    os.utime(tmp_path / "scan0.nii", ns=(1, 1))
    (tmp_path / "scan4.nii").write_text("scan 99999X")  # as many bytes
    os.utime(tmp_path / "scan4.nii", ns=(2, 2))
    work.done.clear()
    assert statuses(work, pairs) == (["done"] * 4, "1 of 4 pairs done anew: files changed (1)")
    assert work.done == [pairs[3].name]
    record = json.loads((tmp_path / "out" / pairs[0].name / RECORD).read_text())
    assert record["key"]["files"]["fixed"][0][2] == 1  # and is not read again the next time
    assert statuses(work, pairs)[1] == ""


def test_files_that_were_moved_still_count(tmp_path: Path):
    (tmp_path / "a").mkdir()
    work = stub(tmp_path / "out")
    statuses(work, listed(tmp_path / "a", 2))
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert statuses(work, listed(tmp_path / "b", 2)) == (["done"] * 2, "")
    assert len(work.done) == 2


def test_labels_that_are_new_are_registered_with(tmp_path: Path):
    (pair,) = listed(tmp_path, 1)
    work = stub(tmp_path / "out")
    statuses(work, [pair])
    labelled = replace(pair, fixed=replace(pair.fixed, labels=pair.moving.image))
    assert "files changed" in statuses(work, [labelled])[1]


def test_another_algorithm_does_it_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pairs = listed(tmp_path, 2)
    work = stub(tmp_path / "out")
    statuses(work, pairs)
    monkeypatch.setattr("gradicon.cohort.key.ALGORITHM", 10**6)
    assert statuses(work, pairs)[1] == "2 of 2 pairs done anew: algorithm changed (2)"
    assert len(work.done) == 4


def test_a_model_counts_by_its_content(tmp_path: Path):
    """Trained on: anew. Under another name: the same. Another one: refused, since what was done
    with the first would be lost.
    """
    (pair,) = listed(tmp_path, 1)
    small = ModelConfig(
        dimension=2, stage=1, resolutions=2, down_channels=(4, 8), up_channels=(4, 8)
    )
    for name in ("a", "b"):
        save(build(small), tmp_path / f"{name}.safetensors", notes={"name": name})
    out = tmp_path / "out"
    statuses(stub(out, Options(model=str(tmp_path / "a.safetensors"))), [pair])
    with pytest.raises(GradiconError, match="with model .*a.safetensors, not .*b.safetensors"):
        take_stock(stub(out, Options(model=str(tmp_path / "b.safetensors"))), [pair])
    shutil.copy(tmp_path / "a.safetensors", tmp_path / "c.safetensors")
    assert statuses(stub(out, Options(model=str(tmp_path / "c.safetensors"))), [pair])[1] == ""
    shutil.copy(tmp_path / "b.safetensors", tmp_path / "a.safetensors")
    note = statuses(stub(out, Options(model=str(tmp_path / "a.safetensors"))), [pair])[1]
    assert note == "1 of 1 pairs done anew: model changed (1)"


def test_other_options_are_refused_before_anything_is_lost(tmp_path: Path):
    pairs = listed(tmp_path, 2)
    statuses(stub(tmp_path / "out"), pairs)
    other = stub(tmp_path / "out", Options(model="none", refine=7))
    with pytest.raises(GradiconError, match="with refine 20, not 7: choose another folder, or say"):
        take_stock(other, pairs)
    assert other.done == []
    assert (
        statuses(stub(tmp_path / "out", Options(model="none", device="cpu")), pairs)[1] == ""
    )  # wherever it is done
    assert statuses(other, pairs, again=True) == (["done", "done"], "")
    assert len(other.done) == 2


def test_interrupted_work_goes_on_where_it_was(tmp_path: Path):
    pairs = listed(tmp_path, 4)

    def interrupt(pair: Pair) -> None:
        if pair.number == 3:
            raise KeyboardInterrupt

    statuses(stub(tmp_path / "out", Options(model="none", refine=7)), pairs)
    work = stub(tmp_path / "out", act=interrupt)
    with pytest.raises(KeyboardInterrupt):
        statuses(work, pairs, again=True)
    assert work.summaries[-1] == ["done", "done", "waiting", "waiting"]
    rest = stub(tmp_path / "out")
    assert statuses(rest, pairs)[0] == ["done"] * 4
    assert rest.done == [pairs[2].name, pairs[3].name]


def test_failures_are_records_and_are_tried_again(tmp_path: Path):
    pairs = listed(tmp_path, 4)
    errors = {
        1: GradiconError("scan: too\nflat"),
        2: IndexError("list index out of range"),
        3: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ..."),
    }

    def fail(pair: Pair) -> None:
        if pair.number in errors:
            raise errors[pair.number]

    work = stub(tmp_path / "out", act=fail)
    records = run(take_stock(work, pairs))
    assert [record.status for record in records] == ["failed"] * 3 + ["done"]
    assert records[0].error == "scan: too flat"
    folders = [work.folder(pair) for pair in pairs]
    assert records[1].error == (
        "a mistake of gradicon, not of yours: IndexError: list index out of range: see "
        f"{folders[1] / 'error.txt'}, and please report it"
    )
    assert "raise errors[pair.number]" in (folders[1] / "error.txt").read_text()
    assert records[2].error.startswith("out of memory: ")
    assert not (folders[0] / "error.txt").exists()
    assert not (folders[2] / "error.txt").exists()
    assert json.loads((folders[1] / RECORD).read_text())["error"] == records[1].error
    note = "3 of 4 pairs done anew: failed before (3)"
    assert statuses(stub(tmp_path / "out"), pairs) == (["done"] * 4, note)
    assert not (folders[1] / "error.txt").exists()


def test_a_pair_whose_folder_cannot_be_made_does_not_stop_the_rest(tmp_path: Path):
    pairs = listed(tmp_path, 2)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / pairs[0].name).write_text("a file in the way")
    assert statuses(stub(tmp_path / "out"), pairs)[0] == ["failed", "done"]
    assert statuses(stub(tmp_path / "out"), pairs, again=True)[0] == ["failed", "done"]


def test_a_file_that_is_gone_fails_its_own_pair_only(tmp_path: Path):
    pairs = listed(tmp_path, 3)
    statuses(stub(tmp_path / "out"), pairs)
    (tmp_path / "scan0.nii").unlink()
    assert statuses(stub(tmp_path / "out"), pairs)[0] == ["failed", "done", "done"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pair": "x", "status": "done", "key": {}}'])
def test_records_that_cannot_be_read_do_not_count(tmp_path: Path, text: str):
    pairs = listed(tmp_path, 1)
    statuses(stub(tmp_path / "out"), pairs)
    (tmp_path / "out" / pairs[0].name / RECORD).write_text(text)
    note = "1 of 1 pairs done anew: no record of how they were made (1)"
    assert statuses(stub(tmp_path / "out"), pairs) == (["done"], note)


def test_results_that_were_thrown_away_are_made_again(tmp_path: Path):
    pairs = listed(tmp_path, 1)
    statuses(stub(tmp_path / "out"), pairs)
    (tmp_path / "out" / pairs[0].name / "result").unlink()
    note = "1 of 1 pairs done anew: results missing (1)"
    assert statuses(stub(tmp_path / "out"), pairs)[1] == note
