"""The one loop over a cohort: first what still counts is found, then the rest is done anew."""

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import final

from gradicon.cohort.contents import Contents
from gradicon.cohort.failures import ERROR, describe_failure
from gradicon.cohort.key import How, changed_option, how_of, key_of, why_anew
from gradicon.cohort.record import RECORD, Record, read_record, write_record
from gradicon.cohort.work import Progress, Work
from gradicon.errors import GradiconError
from gradicon.physical.lists import Pair

# Writing a summary takes longer the more pairs there are. It is written at most every second, and
# takes at most a twentieth of the time, so that a long list costs no more for each of its pairs.
_SECONDS_BETWEEN = 1.0
_TIMES_AS_LONG = 20.0


@final
@dataclass(frozen=True, eq=False)
class Stock:
    """What there is of a cohort before anything runs.

    Args:
        work: what is done with each pair.
        how: all but the files that results depend on.
        pairs: the cohort.
        records: one for each pair, `waiting` where it must be done.
        reasons: why pairs that were there before are done anew, and how many.
        contents: the files whose hashes are known.
        forget: whether records are put away first, so that none counts any more.
    """

    work: Work
    how: How
    pairs: tuple[Pair, ...]
    records: tuple[Record, ...]
    reasons: Counter[str]
    contents: Contents
    forget: bool

    @property
    def waiting(self) -> list[Pair]:
        """The pairs that must be done."""
        both = zip(self.pairs, self.records, strict=True)
        return [pair for pair, record in both if record.status == "waiting"]

    @property
    def note(self) -> str:
        """How many pairs are done anew, and why; empty if none is."""
        if not self.reasons:
            return ""
        causes = ", ".join(f"{cause} ({count})" for cause, count in self.reasons.most_common())
        return f"{self.reasons.total()} of {len(self.pairs)} pairs done anew: {causes}"


def take_stock(work: Work, pairs: Sequence[Pair], *, again: bool = False) -> Stock:
    """Read each record once, and see which still count. Nothing is registered.

    Pairs that are done in another way, by other options, are refused: their results would be lost.
    With `again`, no record counts.
    """
    how = how_of(work.kind, work.options)
    contents = Contents()
    reasons: Counter[str] = Counter()
    records = [Record(pair.name) for pair in pairs]
    for i, pair in enumerate([] if again else pairs):
        record = read_record(work.folder(pair))
        reason = _reason_anew(work, pair, record, how, contents)
        if reason:
            reasons[reason] += 1
        elif record is not None:
            records[i] = record
    return Stock(work, how, tuple(pairs), tuple(records), reasons, contents, again)


def run(stock: Stock, progress: Progress | None = None) -> list[Record]:
    """Do what is waiting, and write the summary meanwhile, at the end, and when interrupted.

    A pair that fails is a record like the others, and the rest go on.
    """
    if stock.forget:
        for pair in stock.pairs:
            with suppress(FileNotFoundError, NotADirectoryError):
                (stock.work.folder(pair) / RECORD).unlink()
    records = list(stock.records)
    due = monotonic() + _SECONDS_BETWEEN
    try:
        for i, pair in enumerate(stock.pairs):
            if records[i].status == "waiting":
                records[i] = _do(stock, pair, progress)
                if monotonic() >= due:
                    began = monotonic()
                    stock.work.summarise(records, stock.how)
                    ended = monotonic()
                    due = ended + max(_SECONDS_BETWEEN, _TIMES_AS_LONG * (ended - began))
    finally:
        stock.work.summarise(records, stock.how)
    return records


def _reason_anew(
    work: Work, pair: Pair, record: Record | None, how: How, contents: Contents
) -> str:
    """Why a pair that was there before must be done again; empty if it counts, or never was."""
    folder = work.folder(pair)
    if record is None:
        return "no record of how they were made" if work.has_results(folder) else ""
    if record.status != "done" or record.key is None:
        return "failed before"
    if not work.has_results(folder):
        return "results missing"
    _check_same_options(record, how, folder)
    contents.remember(stamp for stamps in record.key.files.values() for stamp in stamps)
    try:
        key = key_of(pair, how, contents)
    except OSError:  # it cannot be read any more: the pair itself will say so
        return "files changed"
    reason = why_anew(record.key, key)
    if not reason and key.files != record.key.files:  # touched or moved: not to be read again
        with suppress(OSError):
            write_record(folder, replace(record, key=replace(record.key, files=key.files)))
    return reason


def _check_same_options(record: Record, how: How, folder: Path) -> None:
    changed = None if record.key is None else changed_option(record.key.how, how)
    if changed is not None:
        name, former = changed
        raise GradiconError(
            f"{folder} was registered with {name} {former}, not {how.options[name]}: "
            "choose another folder, or say --again"
        )


def _do(stock: Stock, pair: Pair, progress: Progress | None) -> Record:
    """One pair, done or failed, and its record kept."""
    folder = stock.work.folder(pair)
    record = Record(pair.name, "failed")
    try:
        (folder / RECORD).unlink(missing_ok=True)  # it says nothing of what comes now
        (folder / ERROR).unlink(missing_ok=True)
        record = replace(record, key=key_of(pair, stock.how, stock.contents))
        with nullcontext() if progress is None else progress(pair) as on_step:
            result = stock.work.do(pair, on_step)
        done = replace(record, status="done", result=result)
        write_record(folder, done)
    except Exception as error:
        failed = replace(record, error=describe_failure(error, folder))
        with suppress(OSError):  # without a record it is tried again, too
            write_record(folder, failed)
        return failed
    return done
