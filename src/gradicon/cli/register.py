"""`gradicon register`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gradicon.cli.choices import registers
from gradicon.cli.common import (
    OutFolder,
    Overwrite,
    optimisation_progress,
    refuse_existing,
    this_command,
)
from gradicon.registration.files import register_files
from gradicon.registration.options import Options
from gradicon.registration.result.outputs import FILES
from gradicon.registration.result.scores import Extras


@registers
def register(
    choose: Callable[[], Options],
    fixed: Annotated[
        Path,
        typer.Option(
            "-f",
            "--fixed",
            help="The image to align to: a file or a DICOM folder.",
            show_default=False,
        ),
    ],
    moving: Annotated[
        Path, typer.Option("-m", "--moving", help="The image to be aligned.", show_default=False)
    ],
    out: OutFolder,
    fixed_mask: Annotated[Path | None, typer.Option(help="Where the fixed image counts.")] = None,
    moving_mask: Annotated[Path | None, typer.Option(help="Where the moving image counts.")] = None,
    fixed_labels: Annotated[Path | None, typer.Option(help="To score: Dice per label.")] = None,
    moving_labels: Annotated[Path | None, typer.Option(help="To warp and score.")] = None,
    fixed_landmarks: Annotated[
        Path | None, typer.Option(help="To carry along and score: .csv, .fcsv, .mrk.json.")
    ] = None,
    moving_landmarks: Annotated[Path | None, typer.Option(help="To score.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print report.json on standard output.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Align MOVING to FIXED: the warped image, the transform and its inverse, and a report to look
    at.

    Example: `gradicon register -f fixed.nii.gz -m moving.nii.gz -o result`
    """
    options = choose()
    extras = Extras(fixed_labels, moving_labels, fixed_landmarks, moving_landmarks)
    refuse_existing([out], overwrite=overwrite)
    with optimisation_progress("registering") as show:
        report = register_files(
            fixed,
            moving,
            out,
            options,
            extras,
            (fixed_mask, moving_mask),
            command=this_command(),
            on_step=show,
        )
    typer.echo(json.dumps(report, indent=2) if as_json else _summarise(out, report))


def _summarise(out: Path, report: dict[str, Any]) -> str:
    similarity = report["similarity"]
    error = report["inverse_consistency_mm"]
    lines = [f"{out}: {', '.join(name for name in FILES if (out / name).exists())}"]
    lines += [report["start"]["note"], report["made"]]
    lines.append(
        f"{similarity['name']} dissimilarity {similarity['before']:.4f} before, "
        f"{similarity['after']:.4f} after"
    )
    if report["dice_after"]:
        before, after = (
            sum(d.values()) / len(d) for d in (report["dice_before"], report["dice_after"])
        )
        lines.append(f"mean Dice {before:.3f} before, {after:.3f} after")
    if report["landmark_error_after_mm"]:
        before, after = (
            sum(e) / len(e)
            for e in (report["landmark_error_before_mm"], report["landmark_error_after_mm"])
        )
        lines.append(f"mean landmark error {before:.2f} mm before, {after:.2f} mm after")
    lines.append(
        f"folds {report['folds_percent']:.3g} %, inverse consistency "
        f"{error['mean_mm']:.3f} mm (largest {error['max_mm']:.2f})"
    )
    return "\n".join(lines)
