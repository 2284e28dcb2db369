"""From files to a folder of results."""

from pathlib import Path

from gradicon.physical.images import read_image
from gradicon.registration.decide import make_plan
from gradicon.registration.options import Options
from gradicon.registration.pair import read_pair
from gradicon.registration.plan import Plan
from gradicon.registration.register import OnStep, register
from gradicon.registration.result.also import read_companions
from gradicon.registration.result.outputs import Outcome, check_writable, write_outputs
from gradicon.registration.result.scores import Extras, read_extras

Masks = tuple[Path | None, Path | None]


def register_files(
    fixed: Path,
    moving: Path,
    out: Path,
    options: Options,
    extras: Extras,
    masks: Masks = (None, None),
    *,
    command: str = "",
    on_step: OnStep | None = None,
) -> Outcome:
    """Register two files, score what came with them, and write the folder `out`.

    What can be wrong with the input is found before the slow part begins.

    Args:
        fixed, moving: images, or folders of DICOM series.
        out: the folder of results.
        options: what the person chose.
        extras: labels, landmarks and other images that come with the pair.
        masks: of fixed and moving.
        command: that ran it, for the record.
        on_step: called after every step of optimisation.
    """
    check_writable(out)
    fixed_image = read_image(fixed)
    moving_image = read_image(moving)
    carried = read_extras(extras, fixed_image, moving_image)
    companions = read_companions(extras.also, moving_image)
    found = register(
        fixed_image,
        moving_image,
        options,
        fixed_mask=masks[0],
        moving_mask=masks[1],
        on_step=on_step,
    )
    provenance = {"fixed": fixed.name, "moving": moving.name, "command": command}
    if found.plan.model is not None:
        provenance["model"] = found.plan.model.path.name
        provenance["model sha256"] = found.plan.model.header.sha256
    outcome = Outcome.of(found, carried, provenance)
    write_outputs(out, outcome, companions)
    return outcome


def plan_files(fixed: Path, moving: Path, options: Options, masks: Masks = (None, None)) -> Plan:
    """What `register_files` would do, without doing it. The images are read."""
    pair = read_pair(fixed, moving, masks)
    return make_plan(pair[0].volume.space, (pair[0].look, pair[1].look), options)
