"""`gradicon warp`, `points`, `jacobian` and `convert`: transforms put to use."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from gradicon.cli.common import Overwrite, refuse_existing
from gradicon.physical.images import from_sitk, read_image, write_image
from gradicon.physical.landmarks import Frame, Landmarks, read_landmarks, write_landmarks
from gradicon.physical.transforms import (
    Interpolation,
    ItkTransform,
    compose,
    jacobian_image,
    read_transform,
    resample,
    transform_points,
    write_ants_field,
    write_learn2reg_field,
    write_transform,
)

Format = Literal["auto", "itk", "ants", "learn2reg"]
Transforms = Annotated[
    list[Path],
    typer.Option(
        "-t",
        "--transform",
        help="A transform; of several, points go through the first one first, as in ANTs.",
        show_default=False,
    ),
]
Reference = Annotated[
    Path,
    typer.Option("-r", "--reference", help="The image whose grid is used.", show_default=False),
]
Out = Annotated[Path, typer.Option("-o", "--out", help="The file to write.", show_default=False)]


def warp(
    image: Annotated[Path, typer.Argument(help="The image to resample.", show_default=False)],
    reference: Reference,
    transform: Transforms,
    out: Out,
    interpolation: Annotated[
        Interpolation, typer.Option(help="`label` and `nearest` invent no values.")
    ] = "linear",
    overwrite: Overwrite = False,
) -> None:
    """Resample IMAGE onto the grid of a reference, keeping its pixel type.

    Example: `gradicon warp moving_labels.nii.gz -r fixed.nii.gz -t result/transform.h5 -o
    labels.nii.gz --interpolation label`
    """
    refuse_existing([out], overwrite=overwrite)
    moving = read_image(image)
    outside = 0.0 if interpolation in ("nearest", "label") else float(from_sitk(moving).data.min())
    write_image(
        resample(
            moving, read_image(reference), _read_transforms(transform), interpolation, outside
        ),
        out,
    )


def points(
    file: Annotated[
        Path, typer.Argument(help="Landmarks: .csv, .fcsv or .mrk.json.", show_default=False)
    ],
    transform: Transforms,
    out: Out,
    frame: Annotated[
        Frame, typer.Option(help="Of .csv files; the others say it themselves.")
    ] = "lps",
    overwrite: Overwrite = False,
) -> None:
    """Carry points through a transform, in mm.

    transform.h5 takes points of FIXED to points of MOVING. Points of MOVING go to FIXED through
    inverse.h5.

    Example: `gradicon points fixed_points.csv -t result/transform.h5 -o in_moving.csv`
    """
    refuse_existing([out], overwrite=overwrite)
    landmarks = read_landmarks(file, frame=frame)
    moved = transform_points(_read_transforms(transform), landmarks.points_mm)
    write_landmarks(out, Landmarks(landmarks.labels, moved), frame=frame)


def jacobian(
    transform: Transforms,
    reference: Reference,
    out: Out,
    log: Annotated[bool, typer.Option("--log", help="The logarithm of the determinant.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write the determinant of a transform's Jacobian on the grid of a reference: below 1 it
    shrinks, at 0 and below it folds.

    Example: `gradicon jacobian -t result/transform.h5 -r fixed.nii.gz -o jacobian.nii.gz`
    """
    refuse_existing([out], overwrite=overwrite)
    write_image(jacobian_image(_read_transforms(transform), read_image(reference), log=log), out)


def convert(
    transform: Annotated[Path, typer.Argument(help="A transform.", show_default=False)],
    reference: Reference,
    out: Out,
    as_format: Annotated[Format, typer.Option("--format", help="auto: by the extension.")] = "auto",
    overwrite: Overwrite = False,
) -> None:
    """Write a transform in another format: ITK's .h5 or .tfm, a displacement field in mm for ANTs,
    or voxels for Learn2Reg.

    Example: `gradicon convert result/transform.h5 -r fixed.nii.gz -o warp.nii.gz`
    """
    refuse_existing([out], overwrite=overwrite)
    read = _read_transforms([transform])
    image = read_image(reference)
    kind = (
        as_format
        if as_format != "auto"
        else ("ants" if out.name.endswith((".nii.gz", ".nii", ".mha", ".nrrd")) else "itk")
    )
    match kind:
        case "itk":
            write_transform(read, out)
        case "ants":
            write_ants_field(read, image, out)
        case _:
            write_learn2reg_field(read, image, out)


def _read_transforms(paths: list[Path]) -> ItkTransform:
    transforms = [read_transform(path) for path in paths]
    return transforms[0] if len(transforms) == 1 else compose(transforms)
