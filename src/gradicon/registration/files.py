"""From files to a folder of results."""

from pathlib import Path
from typing import Any

from gradicon.physical.images import read_image
from gradicon.registration.options import Options
from gradicon.registration.register import OnStep, register
from gradicon.registration.result.outputs import check_writable, write_outputs
from gradicon.registration.result.scores import Extras, read_extras, score


def register_files(
    fixed: Path,
    moving: Path,
    out: Path,
    options: Options,
    extras: Extras,
    masks: tuple[Path | None, Path | None] = (None, None),
    *,
    command: str = "",
    on_step: OnStep | None = None,
) -> dict[str, Any]:
    """Register two files, score what came with them, and write the folder `out`. Returns what its
    report.json says.

    What can be wrong with the input is found before the slow part begins.
    """
    check_writable(out)
    fixed_image = read_image(fixed)
    moving_image = read_image(moving)
    carried = read_extras(extras, fixed_image, moving_image)
    provenance = {"fixed": fixed.name, "moving": moving.name, "command": command}
    found = register(
        fixed_image,
        moving_image,
        options,
        fixed_mask=masks[0],
        moving_mask=masks[1],
        on_step=on_step,
    )
    if found.plan.model is not None:
        provenance |= {
            "model": found.plan.model.path.name,
            "model sha256": found.plan.model.header.sha256,
        }
    return write_outputs(out, found, carried, score(carried, found.transform), provenance)
