"""`gradicon import-weights` and `gradicon inspect`."""

import json
from pathlib import Path
from typing import Annotated

import typer

import gradicon
from gradicon.cli.common import Overwrite, refuse_existing
from gradicon.errors import GradiconError
from gradicon.experiments.drawing import draw_network
from gradicon.files import sha256_of
from gradicon.models import from_icon, read_header, read_icon, save
from gradicon.models.earlier import convert_earlier
from gradicon.training.recipe import read_recipe


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
    recipe: Annotated[
        Path | None,
        typer.Option(
            "-r",
            "--recipe",
            help="A recipe whose [data] says how images were prepared for these weights.",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Turn weights of the reference implementation into a checkpoint, without pickle.

    With a recipe, the checkpoint says how images are prepared for it, and `gradicon register`
    prepares them so. A checkpoint of an earlier version of gradicon is brought up to date.

    Example: `gradicon import-weights Step_2_final.trch -o unigradicon.safetensors`

    Example: `gradicon import-weights lung.trch --recipe copdgene.toml -o lung.safetensors`

    Example: `gradicon import-weights earlier.safetensors -o model.safetensors`
    """
    refuse_existing([out], overwrite=overwrite)
    prepared = None if recipe is None else read_recipe(recipe)
    if file.suffix == ".safetensors":
        if recipe is not None:
            raise GradiconError(f"{file}: a checkpoint says itself how it was trained: no --recipe")
        model = convert_earlier(file, out)
    else:
        model = from_icon(read_icon(file))
        if prepared is not None and prepared.model.dimension != model.config.dimension:
            raise GradiconError(
                f"{recipe}: the recipe is {prepared.model.dimension}-D, but the weights in {file} "
                f"are {model.config.dimension}-D"
            )
        notes = {
            "imported from": file.name,
            "sha256 of that file": sha256_of(file),
            "gradicon": gradicon.__version__,
        }
        save(model, out, preprocessing=prepared and prepared.preprocessing, notes=notes)
    count = sum(parameter.numel() for parameter in model.parameters())
    typer.echo(f"{out}: {model.config.title}, {model.config.dimension}-D, {count:,} parameters")


def inspect(
    file: Annotated[Path, typer.Argument(help="A checkpoint.", show_default=False)],
    figure: Annotated[
        Path | None, typer.Option(help="A PNG to write: the network as a picture.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Print what a checkpoint says of itself, as JSON: network, preprocessing, training, hash.

    Example: `gradicon inspect model.safetensors`

    Example: `gradicon inspect model.safetensors --figure network.png`
    """
    header = read_header(file)
    if figure is not None:
        refuse_existing([figure], overwrite=overwrite)
        draw_network(header.config, figure)
    typer.echo(json.dumps(header.to_dict(), indent=2))
