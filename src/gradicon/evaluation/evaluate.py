"""The same `register` as users run, on a list of pairs, and everything that can be said of the
result.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple
from hashlib import sha256
from math import isfinite
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import gradicon
from gradicon.cohort.runner import Row
from gradicon.core.jacobian import fold_percentage, sd_log_jacobian
from gradicon.core.metrics import dice
from gradicon.errors import GradiconError
from gradicon.evaluation.memory import peak_memory
from gradicon.evaluation.surfaces import hd95
from gradicon.files import written_whole
from gradicon.models import read_header
from gradicon.models.zoo import DEFAULT, find
from gradicon.physical.images import Image, from_sitk, read_image
from gradicon.physical.transforms import ItkTransform, identity_transform, jacobian_image
from gradicon.registration.options import AUTO, NONE, Options
from gradicon.registration.register import OnStep, Registration, register
from gradicon.registration.result.scores import (
    Carried,
    landmark_errors_mm,
    read_extras,
    warped_labels,
)

Record = dict[str, Any]
"""What is known of one pair: `status` is "done" or "failed"; a measure that does not apply is not
there.
"""

OnPair = Callable[[int, str], OnStep | None]
"""Called before each pair with its number and name; what it returns is told of the optimisation's
steps.
"""

PAIRS = "pairs"


def check_pairs(rows: Sequence[Row]) -> None:
    """Read all that comes with the images, so that what is wrong with it is named before anything
    slow runs.
    """
    for row in rows:
        try:
            read_extras(row.extras, read_image(row.fixed), read_image(row.moving))
        except (ValueError, OSError) as error:
            raise GradiconError(f"row {row.number}: {error}") from error


def evaluate(
    rows: Sequence[Row],
    options: Options,
    out: Path,
    *,
    again: bool = False,
    on_pair: OnPair | None = None,
) -> list[Record]:
    """Register and judge every pair; each is kept in OUT/pairs, and not done again if its files and
    the options are the same.

    A pair that fails is a record like the others, with its error.
    """
    (out / PAIRS).mkdir(parents=True, exist_ok=True)
    model = (
        None
        if options.model == NONE
        else read_header(find(DEFAULT if options.model == AUTO else options.model)).sha256
    )
    how = options.as_dict() | {"model": model, "gradicon": gradicon.__version__}
    records: list[Record] = []
    for row in rows:
        path = out / PAIRS / f"{row.name}.json"
        source = how | {"files": _fingerprint(row)}
        kept = None if again else _kept(path, source)
        if kept is None:
            kept = {"pair": row.name, "source": source, **_finite(_tried(row, options, on_pair))}
            with written_whole(path) as part:
                part.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        records.append(kept)
    return records


def judge(found: Registration, carried: Carried) -> Record:
    """Every measure of one registration that applies to it."""
    shape = found.pair.space.shape
    still = identity_transform(found.transform.GetDimension())
    return (
        _judge_labels(carried, still, found.transform)
        | _judge_landmarks(carried, still, found.transform)
        | {
            "dissimilarity": found.similarity[1],
            "dissimilarity_before": found.similarity[0],
            "folds_percent": fold_percentage(found.phi, shape).item(),
            "itk_folds_percent": _itk_folds_percent(found),
            "sd_log_jacobian": sd_log_jacobian(found.phi, shape).item(),
            "inverse_consistency_mm": found.inverse_error.mean_mm,
            "seconds": round(found.seconds, 3),
        }
    )


def _itk_folds_percent(found: Registration) -> float:
    """By central differences at every voxel of the fixed image, the outermost too: what anyone
    finds who asks ITK.
    """
    return float(
        100 * (from_sitk(jacobian_image(found.transform, found.warped)).data <= 0).double().mean()
    )


def _finite(record: Record) -> Record:
    """Without numbers that are none: JSON has no word for them."""
    return {
        name: value
        for name, value in record.items()
        if not isinstance(value, float) or isfinite(value)
    }


def _fingerprint(row: Row) -> str:
    """Of all files of a pair: where they are, how large, and when they were written."""
    paths = [row.fixed, row.moving, *astuple(row.extras), *row.masks]
    stats = [
        None
        if path is None
        else (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns)
        for path in paths
    ]
    return sha256(repr(stats).encode()).hexdigest()


def _kept(path: Path, source: Record) -> Record | None:
    """What was found before, if it was found of the same files in the same way and did not fail."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = (
        isinstance(record, dict)
        and record.get("status") == "done"
        and record.get("source") == json.loads(json.dumps(source))
    )
    return record if same else None


def _tried(row: Row, options: Options, on_pair: OnPair | None) -> Record:
    try:
        on_step = None if on_pair is None else on_pair(row.number, row.name)
        fixed = read_image(row.fixed)
        moving = read_image(row.moving)
        carried = read_extras(row.extras, fixed, moving)
        with peak_memory(options.torch_device) as peak_gb:
            found = register(
                fixed,
                moving,
                options,
                fixed_mask=row.masks[0],
                moving_mask=row.masks[1],
                on_step=on_step,
            )
            memory = round(peak_gb(), 3)
        return {"status": "done", **judge(found, carried), "peak_memory_gb": memory}
    except (ValueError, TypeError, OSError, RuntimeError, MemoryError) as error:
        return {"status": "failed", "error": " ".join(str(error).split()) or type(error).__name__}


def _judge_labels(carried: Carried, still: ItkTransform, transform: ItkTransform) -> Record:
    before = warped_labels(carried, still)
    after = warped_labels(carried, transform)
    if before is None or after is None:
        return {}
    overlap_before = _dice(before)
    overlap = _dice(after)
    if not overlap_before or not overlap:  # nothing but background in both
        return {}
    warped, fixed = (from_sitk(image) for image in after)
    distances = hd95(warped.data[0, 0].numpy(), fixed.data[0, 0].numpy(), fixed.space.spacing_mm)
    far = {str(label): value for label, value in distances.items()}
    found: Record = {
        "dice": overlap,
        "dice_before": overlap_before,
        "mean_dice": mean(overlap.values()),
        "mean_dice_before": mean(overlap_before.values()),
        "hd95_mm": far,
        "lost_labels": len(overlap) - len(far),
    }
    return found | ({"mean_hd95_mm": mean(far.values())} if far else {})


def _dice(labels: tuple[Image, Image]) -> dict[str, float]:
    return {
        str(label): value
        for label, value in dice(*(from_sitk(image).data for image in labels)).items()
    }


def _judge_landmarks(carried: Carried, still: ItkTransform, transform: ItkTransform) -> Record:
    errors = landmark_errors_mm(carried, transform)
    if not errors or carried.fixed_landmarks is None:
        return {}
    groups: dict[str, list[float]] = {}
    for label, error in zip(carried.fixed_landmarks.labels, errors, strict=True):
        groups.setdefault(label, []).append(error)
    found: Record = {
        "landmark_errors_mm": list(errors),
        "mean_landmark_error_mm": mean(errors),
        "sd_landmark_error_mm": float(np.std(errors, ddof=1)) if len(errors) > 1 else 0.0,
        "mean_landmark_error_before_mm": mean(landmark_errors_mm(carried, still)),
    }
    several = 1 < len(groups) < len(errors)  # names that all differ name points, not groups
    return found | (
        {"landmark_error_by_group_mm": {name: mean(values) for name, values in groups.items()}}
        if several
        else {}
    )
