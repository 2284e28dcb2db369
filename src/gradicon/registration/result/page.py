"""A registration as the page that a person looks at."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from gradicon.core.network import warp
from gradicon.registration.register import Registration
from gradicon.registration.result.measures import Measure
from gradicon.registration.result.report import ReportContent
from gradicon.registration.result.scores import Scores


def make_page(
    found: Registration,
    scores: Scores,
    measures: Mapping[str, Measure],
    provenance: Mapping[str, str],
) -> ReportContent:
    """Images, map, numbers and words.

    Args:
        found: the registration.
        scores: what labels and landmarks say of it.
        measures: its numbers, by key.
        provenance: where it comes from.
    """
    pair = found.pair
    shape = pair.space.shape
    voxels = torch.tensor([n - 1.0 for n in shape]).reshape(-1, *[1] * len(shape))
    first = [1, 0] * len(shape)  # backward differences have none at the first voxels
    determinant = F.pad(found.determinant[:, None], first, mode="replicate")[0, 0]
    return ReportContent(
        title=f"{provenance.get('moving', 'moving')} onto {provenance.get('fixed', 'fixed')}",
        fixed=pair.fixed[0, 0],
        moving=pair.moving[0, 0],
        warped=warp(pair.moving, found.phi)[0, 0],
        displacement=found.phi.materialise(shape).u[0] * voxels,
        jacobian=determinant,
        spacing_mm=pair.space.spacing_mm,
        numbers=[each.as_row() for each in measures.values()],
        meanings=[_explain(each) for each in measures.values()],
        tables=_tables(scores),
        provenance=[(name, str(value)) for name, value in provenance.items()],
        notes=_notes(found),
    )


def _explain(measure: Measure) -> tuple[str, str]:
    better = measure.better if "best" in measure.better else f"{measure.better} is better"
    what = measure.what[0].upper() + measure.what[1:]
    return measure.name, f"{what}. Where: {measure.where}. {better.capitalize()}."


def _tables(scores: Scores) -> list[tuple[str, list[str], list[list[str]]]]:
    rows = [
        [str(label), f"{scores.dice_before.get(label, 0):.3f}", f"{value:.3f}"]
        for label, value in scores.dice_after.items()
    ]
    return [("Dice by label, higher is better", ["label", "before", "after"], rows)] if rows else []


def _notes(found: Registration) -> list[str]:
    fixed, moving = (kind.upper() for kind in found.plan.kinds)
    start = (
        f"Start: {found.pair.start.note}. The picture of the moving image before registration "
        "is after this start."
    )
    notes = [
        f"Deformation: {found.made}.",
        start,
        f"Intensities: fixed as {fixed}, moving as {moving}.",
    ]
    if found.similarity[1] > found.similarity[0]:
        notes.append(
            "Warning: the images are less alike after registration than before. "
            "Do not trust this result."
        )
    return notes
