"""`gradicon register`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gradicon.cli.choices import registers
from gradicon.cli.common import (
    Overwrite,
    optimisation_progress,
    refuse_existing,
    this_command,
)
from gradicon.registration.files import plan_files, register_files
from gradicon.registration.options import Options
from gradicon.registration.result.outputs import FILES, Outcome
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
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The folder for the results.")
    ] = None,
    fixed_mask: Annotated[Path | None, typer.Option(help="Where the fixed image counts.")] = None,
    moving_mask: Annotated[Path | None, typer.Option(help="Where the moving image counts.")] = None,
    fixed_labels: Annotated[Path | None, typer.Option(help="To score: Dice per label.")] = None,
    moving_labels: Annotated[Path | None, typer.Option(help="To warp and score.")] = None,
    fixed_landmarks: Annotated[
        Path | None, typer.Option(help="To carry along and score: .csv, .fcsv, .mrk.json.")
    ] = None,
    moving_landmarks: Annotated[Path | None, typer.Option(help="To score.")] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="Another image of the moving scan, to warp along; again and again."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would be done, as JSON, and do nothing.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print report.json on standard output.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Align MOVING to FIXED: the warped image, the transform and its inverse, and a report to look
    at.

    Example: `gradicon register -f fixed.nii.gz -m moving.nii.gz -o result`

    Example: `gradicon register -f a_t1.nii.gz -m b_t1.nii.gz --to rigid --also b_t2.nii.gz -o out`
    """
    options = choose()
    others = tuple(also or ())
    extras = Extras(fixed_labels, moving_labels, fixed_landmarks, moving_landmarks, others)
    masks = (fixed_mask, moving_mask)
    if plan:
        typer.echo(json.dumps(plan_files(fixed, moving, options, masks).as_dict(), indent=2))
        return
    if out is None:
        raise typer.BadParameter("give -o OUT for the results, or --plan")
    refuse_existing([out], overwrite=overwrite)
    with optimisation_progress("registering") as show:
        outcome = register_files(
            fixed, moving, out, options, extras, masks, command=this_command(), on_step=show
        )
    typer.echo(json.dumps(outcome.as_dict(), indent=2) if as_json else _summarise(out, outcome))


def _summarise(out: Path, outcome: Outcome) -> str:
    found = outcome.found
    lines = [f"{out}: {', '.join(name for name in FILES if (out / name).exists())}"]
    lines += [found.pair.start.note, found.made]
    for measure in outcome.measures.values():
        after = measure.write(measure.after)
        if measure.before is not None:
            lines.append(f"{measure.name}: {measure.write(measure.before)} before, {after} after")
        else:
            lines.append(f"{measure.name}: {after}")
    return "\n".join(lines)
