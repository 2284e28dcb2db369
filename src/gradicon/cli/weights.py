"""`gradicon import-weights` and `gradicon inspect`."""

import json
from pathlib import Path
from typing import Annotated

import typer

import gradicon
from gradicon.cli.common import Overwrite, refuse_existing
from gradicon.files import sha256_of
from gradicon.models import from_icon, read_header, read_icon, save
from gradicon.models.earlier import convert_earlier


def import_weights(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .trch file of the reference (ICON, uniGradICON), or an earlier checkpoint.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The checkpoint to write.", show_default=False)
    ],
    overwrite: Overwrite = False,
) -> None:
    """Turn weights of the reference implementation into a checkpoint, without pickle.

    A checkpoint of an earlier version of gradicon is brought up to date.

    Example: `gradicon import-weights Step_2_final.trch -o unigradicon.safetensors`

    Example: `gradicon import-weights earlier.safetensors -o model.safetensors`
    """
    refuse_existing([out], overwrite=overwrite)
    if file.suffix == ".safetensors":
        model = convert_earlier(file, out)
    else:
        model = from_icon(read_icon(file))
        notes = {
            "imported from": file.name,
            "sha256 of that file": sha256_of(file),
            "gradicon": gradicon.__version__,
        }
        save(model, out, notes=notes)
    count = sum(parameter.numel() for parameter in model.parameters())
    typer.echo(f"{out}: {model.config.title}, {model.config.dimension}-D, {count:,} parameters")


def inspect(
    file: Annotated[Path, typer.Argument(help="A checkpoint.", show_default=False)],
) -> None:
    """Print what a checkpoint says of itself, as JSON: network, preprocessing, training, hash.

    Example: `gradicon inspect model.safetensors`
    """
    typer.echo(json.dumps(read_header(file).to_dict(), indent=2))
