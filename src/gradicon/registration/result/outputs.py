"""What a registration leaves in a folder: images, both transforms, and two reports.

`report.html` is for people, `report.json` for programs.
"""

import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch

from gradicon.errors import FileInTheWayError, UnwritableError
from gradicon.physical.images import pixel_type, write_image
from gradicon.physical.landmarks import Landmarks, write_landmarks
from gradicon.physical.transforms import transform_points, write_transform
from gradicon.registration.register import Registration
from gradicon.registration.result.also import Companion, warp_companions
from gradicon.registration.result.measures import Measure, measure
from gradicon.registration.result.page import make_page
from gradicon.registration.result.report import render_report
from gradicon.registration.result.scores import Carried, Scores, score

REPORT = "report.json"
"""Written last: where it stands, the rest is whole."""

ALSO = "also"
"""The folder of the other images of the moving scan, warped."""

FILES = (
    "warped.nii.gz",
    "transform.h5",
    "inverse.h5",
    "warped_labels.nii.gz",
    "warped_landmarks.csv",
    ALSO,
    "report.html",
    REPORT,
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A registration with all that was measured of it.

    Args:
        found: the registration.
        carried: what came with the pair.
        scores: what labels and landmarks say.
        measures: every number, by key.
        provenance: where it comes from: file names, command, versions.
    """

    found: Registration
    carried: Carried
    scores: Scores
    measures: Mapping[str, Measure]
    provenance: Mapping[str, str]

    @classmethod
    def of(cls, found: Registration, carried: Carried, provenance: Mapping[str, str]) -> "Outcome":
        """Score and measure a registration, each number once."""
        scores = score(carried, found.transform, found.warped)
        machine = f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads"
        about = {
            **provenance,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": machine,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return cls(found, carried, scores, measure(found, scores), about)

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what `report.json` says."""
        found = self.found
        return {
            "measures": {key: each.as_dict() for key, each in self.measures.items()},
            "dice": {"before": self.scores.dice_before, "after": self.scores.dice_after},
            "landmark_errors_mm": {
                "before": self.scores.landmarks_before_mm,
                "after": self.scores.landmarks_after_mm,
            },
            "made": found.made,
            "start": {
                "method": found.pair.start.method,
                "note": found.pair.start.note,
                "fixed_mm_to_moving_mm": found.pair.start.matrix.tolist(),
            },
            "plan": found.plan.as_dict(),
            "options": found.options.as_dict(),
            "warped_pixel_type": pixel_type(found.warped),
            "seconds": round(found.seconds, 2),
            "provenance": dict(self.provenance),
        }


def check_writable(out: Path) -> None:
    """Find out before the slow part whether results can be written; nothing is left behind."""
    if out.exists() and not out.is_dir():
        raise FileInTheWayError(f"{out} is a file: the results need a folder")
    folder = next(place for place in (out, *out.absolute().parents) if place.exists())
    try:
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnwritableError(
            f"{out}: cannot be written ({error.strerror}): choose another folder"
        ) from error


def write_outputs(out: Path, outcome: Outcome, companions: tuple[Companion, ...] = ()) -> None:
    """Write everything beside, then move it into the folder `out`, `report.json` last.

    Other files that stand in `out` stay there.
    """
    existed = out.exists()
    part = out / f".part{os.getpid()}"
    try:
        part.mkdir(parents=True)
        _write_parts(part, outcome, companions)
        for name in FILES:
            _remove(out / name)
        for name in FILES:
            if (part / name).exists():
                (part / name).replace(out / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if not existed and out.is_dir() and not any(out.iterdir()):
            out.rmdir()


def _write_parts(part: Path, outcome: Outcome, companions: tuple[Companion, ...]) -> None:
    found = outcome.found
    write_image(found.warped, part / "warped.nii.gz")
    write_transform(found.transform, part / "transform.h5")
    write_transform(found.inverse, part / "inverse.h5")
    if outcome.scores.warped_labels is not None:
        write_image(outcome.scores.warped_labels, part / "warped_labels.nii.gz")
    landmarks = outcome.carried.fixed_landmarks
    if landmarks is not None:
        points = transform_points(found.transform, landmarks.points_mm)
        write_landmarks(part / "warped_landmarks.csv", Landmarks(landmarks.labels, points))
    if companions:
        warp_companions(companions, found, part / ALSO)
    page = make_page(found, outcome.scores, outcome.measures, outcome.provenance)
    (part / "report.html").write_text(render_report(page), encoding="utf-8")
    (part / REPORT).write_text(json.dumps(outcome.as_dict(), indent=2) + "\n", encoding="utf-8")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
