"""`gradicon import-weights` and `gradicon inspect`."""

import hashlib
import json
from pathlib import Path
from typing import Annotated

import typer

import gradicon
from gradicon.cli.common import Overwrite, refuse_existing
from gradicon.models import from_icon, read_header, read_icon, save


def import_weights(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .trch file of the reference implementation (ICON, uniGradICON).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The checkpoint to write.", show_default=False)
    ],
    overwrite: Overwrite = False,
) -> None:
    """Turn weights of the reference implementation into a checkpoint that loads anywhere, without
    pickle.

    Example: `gradicon import-weights Step_2_final.trch -o unigradicon.safetensors`
    """
    refuse_existing([out], overwrite=overwrite)
    model = from_icon(read_icon(file))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    save(
        model,
        out,
        provenance={
            "imported from": file.name,
            "sha256 of that file": digest,
            "gradicon": gradicon.__version__,
        },
    )
    count = sum(parameter.numel() for parameter in model.parameters())
    typer.echo(
        f"{out}: Stage{model.config.stage}, {model.config.dimension}-D, {count:,} parameters"
    )


def inspect(
    file: Annotated[Path, typer.Argument(help="A checkpoint.", show_default=False)],
) -> None:
    """Print what a checkpoint says of itself, as JSON: configuration, hash and where it comes from.

    Example: `gradicon inspect model.safetensors`
    """
    header = read_header(file)
    typer.echo(
        json.dumps(
            {
                "config": header.config.to_dict(),
                "sha256": header.sha256,
                "provenance": dict(header.provenance),
            },
            indent=2,
        )
    )
