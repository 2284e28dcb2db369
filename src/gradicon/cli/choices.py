"""How to register: the options that `register`, `batch` and `evaluate` share, listed once."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from gradicon.core.similarity import PENALTY_WEIGHTS, SIMILARITIES
from gradicon.devices import Device
from gradicon.models import Modality
from gradicon.registration.options import Goal, Options, Precision, Protocol
from gradicon.registration.presets import PRESETS
from gradicon.registration.start import Init

_WEIGHTS = ", ".join(f"{weight:g} with {name}" for name, weight in PENALTY_WEIGHTS.items())
DeviceChoice = Annotated[
    Device, typer.Option(help="Where it is computed; auto takes a GPU where there is one.")
]

Refine = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Iterations of instance optimization at the finest resolution; 0 for none.",
        show_default=f"{PRESETS.fields.steps}, or {PRESETS.answer.steps} with --refine-network",
    ),
]


def _collect_options(
    *,
    to: Annotated[
        Goal, typer.Option(help="How far to go: rigid and affine maps deform nothing.")
    ] = "deformable",
    model: Annotated[
        str,
        typer.Option(
            help="auto, none (fields from scratch), a name from `gradicon models`, or a "
            "checkpoint file."
        ),
    ] = Options.model,
    refine: Refine = None,
    refine_network: Annotated[
        bool,
        typer.Option("--refine-network", help="Refine the network, as published, not the fields."),
    ] = False,
    similarity: Annotated[str, typer.Option(help=f"One of {', '.join(SIMILARITIES)}.")] = "lncc",
    weight: Annotated[
        float | None, typer.Option(help="Of the GradICON penalty.", show_default=f"1.5, {_WEIGHTS}")
    ] = None,
    init: Annotated[
        Init, typer.Option(help="How the fields of view are brought together.")
    ] = "auto",
    fixed_modality: Annotated[
        Modality, typer.Option(help="How its intensities are scaled.")
    ] = "auto",
    moving_modality: Annotated[
        Modality, typer.Option(help="How its intensities are scaled.")
    ] = "auto",
    mask_similarity_only: Annotated[
        bool,
        typer.Option("--mask-similarity-only", help="Keep what is outside, but do not compare it."),
    ] = False,
    protocol: Annotated[
        Protocol,
        typer.Option(
            help="paper: as published. A model sees the images as in its training, its weights are "
            "refined (not with --refine 0), and its map is written as it is, folds and all."
        ),
    ] = "default",
    precision: Annotated[
        Precision,
        typer.Option(help="Of a network that is refined on a GPU.", show_default="bf16; paper: 32"),
    ] = "auto",
    device: DeviceChoice = "auto",
) -> Callable[[], Options]:
    """The options, to be checked when the command asks for them."""
    return lambda: Options(
        to=to,
        fixed_modality=fixed_modality,
        moving_modality=moving_modality,
        init=init,
        model=model,
        refine=refine,
        refine_network=refine_network,
        similarity=similarity,
        weight=weight,
        mask_outside=False if mask_similarity_only else None,
        protocol=protocol,
        precision=precision,
        device=device,
    )


def registers(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options on the command line, in place of its parameter `choose`, which
    it calls to have them.
    """
    shared = list(signature(_collect_options).parameters.values())
    own = [
        p.replace(kind=Parameter.KEYWORD_ONLY)
        for p in signature(command).parameters.values()
        if p.name != "choose"
    ]
    needed = [p for p in own if p.default is Parameter.empty]
    names = {p.name for p in shared}

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 (whatever the command takes)
        choose = _collect_options(**{name: value for name, value in given.items() if name in names})
        command(
            choose=choose, **{name: value for name, value in given.items() if name not in names}
        )

    run.__dict__["__signature__"] = Signature(
        [*needed, *shared, *(p for p in own if p.default is not Parameter.empty)]
    )
    return run
