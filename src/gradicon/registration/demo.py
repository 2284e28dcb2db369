"""The demonstration: the model in the box on the bundled pair, exactly as `gradicon register` runs,
and a picture of it.
"""

import json
import platform
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path

import torch
from torch import Tensor

from gradicon.physical.images import Image, from_sitk, read_image
from gradicon.physical.preprocess import Scaling
from gradicon.physical.transforms import ItkTransform, identity_transform, resample
from gradicon.registration.options import Options
from gradicon.registration.register import OnStep, Registration, register
from gradicon.registration.result.figure import Panel, check_drawing, draw_registration
from gradicon.registration.result.outputs import Outcome, write_outputs
from gradicon.registration.result.scores import Carried

PICTURE = "demo.png"
NUMBERS = "demo.json"


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration found: Dice by label, folds in percent, and how it was run."""

    dice_before: dict[int, float]
    dice_after: dict[int, float]
    folds_percent: float
    made: str
    seconds: float
    torch: str
    machine: str


def run_demo(
    out: Path, options: Options | None = None, *, command: str = "", on_step: OnStep | None = None
) -> DemoResult:
    """Register the bundled pair and write what `gradicon register` writes, a picture and the
    numbers into `out`.
    """
    check_drawing()
    fixed, moving, fixed_labels, moving_labels = (
        _read(name) for name in ("fixed", "moving", "fixed_labels", "moving_labels")
    )
    found = register(fixed, moving, options, on_step=on_step)
    carried = Carried(fixed_labels, moving_labels, None, None)
    provenance = {"fixed": "fixed", "moving": "moving", "command": command}
    outcome = Outcome.of(found, carried, provenance)
    write_outputs(out, outcome)
    result = DemoResult(
        dice_before=outcome.scores.dice_before,
        dice_after=outcome.scores.dice_after,
        folds_percent=outcome.measures["folds"].after,
        made=found.made,
        seconds=round(found.seconds, 2),
        torch=torch.__version__,
        machine=f"{platform.machine()}, {torch.get_num_threads()} threads",
    )
    _draw(out / PICTURE, found, moving, (fixed_labels, moving_labels), result)
    (out / NUMBERS).write_text(json.dumps(asdict(result), indent=2) + "\n")
    return result


def _read(name: str) -> Image:
    with as_file(files("gradicon") / "sample" / f"{name}.nii.gz") as path:
        return read_image(path)


def _draw(
    path: Path, found: Registration, moving: Image, labels: tuple[Image, Image], result: DemoResult
) -> None:
    fixed_labels, moving_labels = labels
    outlined = _values(fixed_labels)
    at = int(
        (outlined > 0).sum((1, 2)).argmax()
    )  # the slice that shows the most of the hippocampus
    pair = found.pair
    still = identity_transform(3)

    def panel(title: str, transform: ItkTransform) -> Panel:
        seen = resample(moving, found.warped, transform)
        outlines = resample(moving_labels, fixed_labels, transform, "label")
        return Panel(title, _scale(seen)[at], _values(outlines)[at])

    fixed = Panel("fixed", pair.fixed[0, 0, at], outlined[at])
    panels = [panel("moving", still), fixed, panel("moving, warped", found.transform)]
    grid = Panel("fixed's grid in moving", pair.moving[0, 0, at])
    before, after = (sum(d.values()) / len(d) for d in (result.dice_before, result.dice_after))
    title = f"Dice {before:.2f} before, {after:.2f} after; folds {result.folds_percent:.3g} %"
    draw_registration(path, panels, grid, found.phi, pair.space.shape, at, title=title)


def _scale(image: Image) -> Tensor:
    return Scaling(kind="mr")(from_sitk(image).canonical().data)[0, 0]


def _values(image: Image) -> Tensor:
    return from_sitk(image).canonical().data[0, 0]
