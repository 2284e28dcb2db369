"""What a registration leaves in a folder: the warped image, both transforms, and a report for
people and one for programs.
"""

import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from tempfile import TemporaryFile
from typing import Any

import torch
import torch.nn.functional as F

from gradicon.core.jacobian import fold_percentage, jacobian_determinant, sd_log_jacobian
from gradicon.core.network import warp
from gradicon.errors import FileInTheWayError, UnwritableError
from gradicon.physical.images import pixel_type, write_image
from gradicon.physical.landmarks import Landmarks, write_landmarks
from gradicon.physical.transforms import resample, transform_points, write_transform
from gradicon.registration.register import Registration
from gradicon.registration.result.report import ReportContent, render_report
from gradicon.registration.result.scores import Carried, Scores

REPORT = "report.json"
"""Written last: where it stands, the rest is whole."""

FILES = (
    "warped.nii.gz",
    "transform.h5",
    "inverse.h5",
    "warped_labels.nii.gz",
    "warped_landmarks.csv",
    "report.html",
    REPORT,
)


def check_writable(out: Path) -> None:
    """Find out before the slow part begins whether a folder of results can be made there; nothing
    is left behind.
    """
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


def write_outputs(
    out: Path, found: Registration, carried: Carried, scores: Scores, provenance: Mapping[str, str]
) -> dict[str, Any]:
    """Write everything beside, then move it into the folder `out`, the report for programs last.
    Returns what that one says.
    """
    report = summarise(found, scores, provenance)
    existed = out.exists()
    part = out / f".part{os.getpid()}"
    try:
        part.mkdir(parents=True)
        write_image(found.warped, part / "warped.nii.gz")
        write_transform(found.transform, part / "transform.h5")
        write_transform(found.inverse, part / "inverse.h5")
        _write_carried(part, found, carried)
        (part / "report.html").write_text(
            render_report(_page(found, scores, report)), encoding="utf-8"
        )
        (part / REPORT).write_text(json.dumps(report, indent=2) + "\n")
        for name in FILES:
            (out / name).unlink(missing_ok=True)
        for name in FILES:
            if (part / name).exists():
                (part / name).replace(out / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if not existed and out.is_dir() and not any(out.iterdir()):
            out.rmdir()
    return report


def summarise(found: Registration, scores: Scores, provenance: Mapping[str, str]) -> dict[str, Any]:
    """All numbers of a registration, as plain values."""
    shape = found.pair.space.shape
    return {
        "similarity": {
            "name": found.options.similarity,
            "before": found.similarity[0],
            "after": found.similarity[1],
        },
        "folds_percent": fold_percentage(found.phi, shape).item(),
        "inverse_folds_percent": fold_percentage(found.inverse_phi, shape).item(),
        "sd_log_jacobian": sd_log_jacobian(found.phi, shape).item(),
        "inverse_consistency_mm": asdict(found.inverse_error),
        "dice_before": scores.dice_before,
        "dice_after": scores.dice_after,
        "landmark_error_before_mm": scores.landmarks_before_mm,
        "landmark_error_after_mm": scores.landmarks_after_mm,
        "start": {
            "method": found.pair.start.method,
            "note": found.pair.start.note,
            "fixed_mm_to_moving_mm": found.pair.start.matrix.tolist(),
        },
        "working_grid": {"shape": list(shape), "spacing_mm": list(found.pair.space.spacing_mm)},
        "warped_pixel_type": pixel_type(found.warped),
        "options": found.options.as_dict(),
        "made": found.made,
        "seconds": round(found.seconds, 2),
        "provenance": {
            **provenance,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} "
            "threads",
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    }


def _write_carried(part: Path, found: Registration, carried: Carried) -> None:
    if carried.moving_labels is not None:
        write_image(
            resample(carried.moving_labels, found.warped, found.transform, "label"),
            part / "warped_labels.nii.gz",
        )
    if carried.fixed_landmarks is not None:
        points = transform_points(found.transform, carried.fixed_landmarks.points_mm)
        write_landmarks(
            part / "warped_landmarks.csv", Landmarks(carried.fixed_landmarks.labels, points)
        )


def _page(found: Registration, scores: Scores, report: Mapping[str, Any]) -> ReportContent:
    pair = found.pair
    shape = found.pair.space.shape
    voxels = torch.tensor([n - 1.0 for n in shape]).reshape(-1, *[1] * len(shape))
    determinant = jacobian_determinant(found.phi, shape)[:, None]
    determinant = F.pad(determinant, [1, 0] * len(shape), mode="replicate")[0, 0]
    names = report["provenance"]
    return ReportContent(
        title=f"{names.get('moving', 'moving')} onto {names.get('fixed', 'fixed')}",
        fixed=pair.fixed[0, 0],
        moving=pair.moving[0, 0],
        warped=warp(pair.moving, found.phi)[0, 0],
        displacement=found.phi.materialise(shape).u[0] * voxels,
        jacobian=determinant,
        spacing_mm=pair.space.spacing_mm,
        numbers=_numbers(report),
        tables=_tables(scores),
        provenance=[(name, str(value)) for name, value in names.items()],
        notes=_notes(found),
    )


def _numbers(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    similarity = report["similarity"]
    error = report["inverse_consistency_mm"]
    rows = [
        (
            f"dissimilarity ({similarity['name']})",
            f"{similarity['before']:.4f}",
            f"{similarity['after']:.4f}",
        )
    ]
    if report["dice_after"]:
        rows.append(
            (
                "mean Dice",
                f"{mean(report['dice_before'].values()):.3f}",
                f"{mean(report['dice_after'].values()):.3f}",
            )
        )
    if report["landmark_error_after_mm"]:
        before = mean(report["landmark_error_before_mm"])
        after = mean(report["landmark_error_after_mm"])
        rows.append(("mean landmark error", f"{before:.2f} mm", f"{after:.2f} mm"))
    return [
        *rows,
        ("folded voxels", "", f"{report['folds_percent']:.4g} %"),
        ("SD of log Jacobian", "", f"{report['sd_log_jacobian']:.3f}"),
        ("inverse consistency, mean", "", f"{error['mean_mm']:.3f} mm"),
        ("inverse consistency, largest", "", f"{error['max_mm']:.3f} mm"),
    ]


def _tables(scores: Scores) -> list[tuple[str, list[str], list[list[str]]]]:
    rows = [
        [str(label), f"{scores.dice_before.get(label, 0):.3f}", f"{value:.3f}"]
        for label, value in scores.dice_after.items()
    ]
    return [("Dice by label", ["label", "before", "after"], rows)] if rows else []


def _notes(found: Registration) -> list[str]:
    fixed, moving = (kind.upper() for kind in found.plan.kinds)
    notes = [
        f"Deformation: {found.made}.",
        (
            f"Start: {found.pair.start.note}. The picture of the moving image before "
            "registration is after this start."
        ),
        f"Intensities: fixed as {fixed}, moving as {moving}.",
    ]
    if found.similarity[1] > found.similarity[0]:
        notes.append(
            "Warning: the images are less alike after registration than before. Do not "
            "trust this result."
        )
    return notes
