"""How to register: the options that `register`, `batch` and `evaluate` share."""

from typing import Annotated

import typer

from gradicon.core.similarity import PENALTY_WEIGHTS, SIMILARITIES
from gradicon.registration import initialise, options

_WEIGHTS = ", ".join(f"{weight:g} with {name}" for name, weight in PENALTY_WEIGHTS.items())

Model = Annotated[str | None, typer.Option(help="A checkpoint. Without one, fields are optimised from scratch.")]
Refine = Annotated[int, typer.Option(min=0, help="Iterations of instance optimization, at each resolution.")]
RefineNetwork = Annotated[bool, typer.Option("--refine-network", help="Refine the network, as published, not the fields.")]
Similarity = Annotated[str, typer.Option(help=f"One of {', '.join(SIMILARITIES)}.")]
Weight = Annotated[float | None, typer.Option(help="Of the GradICON penalty.", show_default=f"1.5, {_WEIGHTS}")]
Init = Annotated[initialise.Init, typer.Option(help="How the fields of view are brought together.")]
Modality = Annotated[options.Modality, typer.Option(help="How its intensities are scaled.")]
MaskSimilarityOnly = Annotated[bool, typer.Option("--mask-similarity-only", help="Keep what is outside, but do not compare it.")]
Device = Annotated[options.Device, typer.Option(help="Where it is computed; auto takes a GPU where there is one.")]
