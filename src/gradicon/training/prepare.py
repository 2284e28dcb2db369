"""From scans to what training reads: one folder, made once.

The only part of training that opens medical image files.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradicon.errors import GradiconError
from gradicon.files import folder_written_whole, sha256_of
from gradicon.physical.lists import Item, Pair, read_images, read_pairs
from gradicon.training.config import DataConfig, Recipe
from gradicon.training.dataset import IMAGES, LABELS, LANDMARKS
from gradicon.training.scans import Scan, label_values, read_scan
from gradicon.training.store import check_replaceable, complete

_COARSE = 5.0  # times as long

OnImage = Callable[[int, int, str], None]
"""Called after every image with its number, how many there are, and its name."""


def prepare(
    manifest: Path,
    recipe: Recipe,
    out: Path,
    *,
    validation: Path | None = None,
    overwrite: bool = False,
    on_image: OnImage | None = None,
) -> dict[str, Any]:
    """Read every scan of a list, bring it to the recipe's grid and intensities, and store them all
    in the folder `out`.

    `manifest` lists images (with `pairs = "inter"`) or pairs ("intra"); `validation` lists pairs.
    Returns what dataset.json says.
    """
    check_replaceable(out, overwrite=overwrite)
    items, pairs = _listed(manifest, recipe.data, validation)
    with folder_written_whole(out) as part:
        metadata = pairs | _store(part, items, recipe.data, manifest, on_image)
        _check_landmarks(metadata)
        return complete(part, recipe.data, metadata)


def _listed(
    manifest: Path, config: DataConfig, validation: Path | None
) -> tuple[list[Item], dict[str, Any]]:
    """Every image once, and the pairs by its number."""
    judged = [] if validation is None else _read_pairs_of_two(validation)
    if config.pairs == "joined":
        raise GradiconError(
            'pairs = "joined" is for folders that were prepared already: '
            "join them with `gradicon join`"
        )
    if config.pairs == "inter":
        given = read_images(manifest)
        trained = []
    else:
        given = []
        trained = _read_pairs_of_two(manifest)
    paired = [item for pair in (*trained, *judged) for item in (pair.moving, pair.fixed)]
    items = list(dict.fromkeys([*given, *paired]))
    number = {item: i for i, item in enumerate(items)}
    for item in items:
        if item.mask is not None and not config.mask_outside:
            raise GradiconError(
                f"{item.image}: has a mask, but the recipe says mask_outside = false: "
                "take the column out, or change it"
            )
    return items, {
        "train": sorted({number[item] for item in given}),
        "train_pairs": [[number[pair.moving], number[pair.fixed]] for pair in trained],
        "validation_pairs": [[number[pair.moving], number[pair.fixed]] for pair in judged],
    }


def _read_pairs_of_two(path: Path) -> list[Pair]:
    """A list of pairs, none of which is one image twice: that teaches a network nothing."""
    pairs = read_pairs(path)
    for pair in pairs:
        if pair.moving.image == pair.fixed.image:
            raise GradiconError(
                f"{path}: row {pair.number}: fixed and moving are one image, "
                f"{pair.fixed.image.name}"
            )
    return pairs


def _store(
    part: Path, items: Sequence[Item], config: DataConfig, manifest: Path, on_image: OnImage | None
) -> dict[str, Any]:
    """Write the arrays, image by image, and say what they hold."""
    values = label_values([item.labels for item in items if item.labels is not None])
    grid = (len(items), *config.shape)
    images = np.lib.format.open_memmap(part / IMAGES, mode="w+", dtype=np.float16, shape=grid)
    labels = None
    if values:
        kind = np.uint8 if len(values) <= 256 else np.uint16
        labels = np.lib.format.open_memmap(part / LABELS, mode="w+", dtype=kind, shape=grid)
    described: list[dict[str, Any]] = []
    points: list[list[list[float]] | None] = []
    for number, item in enumerate(items):
        scan = read_scan(item, config, values)
        images[number] = scan.image
        if labels is not None and scan.labels is not None:
            labels[number] = scan.labels
        points.append(None if scan.landmarks is None else scan.landmarks.tolist())
        described.append(_described(item, scan, manifest))
        if on_image is not None:
            on_image(number + 1, len(items), described[-1]["name"])
    images.flush()
    if labels is not None:
        labels.flush()
    if any(p is not None for p in points):
        (part / LANDMARKS).write_text(json.dumps(points) + "\n", encoding="utf-8")
    return {"images": described, "labels": {str(value): i for i, value in enumerate(values)}}


def _described(item: Item, scan: Scan, manifest: Path) -> dict[str, Any]:
    folder = manifest.parent
    name = item.image.relative_to(folder) if item.image.is_relative_to(folder) else item.image
    return {
        "name": name.as_posix(),
        "sha256": sha256_of(item.image),
        "modality": scan.modality,
        "labels": scan.labels is not None,
        "landmarks": 0 if scan.landmarks is None else len(scan.landmarks),
        "index_to_mm": scan.space.index_to_mm.tolist(),
        "spacing_mm": [round(own, 4) for own in scan.own_spacing_mm],
    }


def lost_detail(metadata: dict[str, Any]) -> str:
    """A word about the image that lost the most, if the grid's voxels are several times as long as
    an image's own; else empty.
    """
    worst = _COARSE
    told = ""
    for image in metadata["images"]:
        grid = np.linalg.norm(np.array(image["index_to_mm"])[:-1, :-1], axis=0)
        for axis, (own, now) in enumerate(zip(image["spacing_mm"], grid, strict=True)):
            if now > worst * own:
                worst = now / own
                told = (
                    f"{image['name']} has voxels of {own:.3g} mm along axis {axis} of the "
                    f"grid, the grid of {now:.3g} mm"
                )
    return told


def _check_landmarks(metadata: dict[str, Any]) -> None:
    images = metadata["images"]
    for a, b in (*metadata["train_pairs"], *metadata["validation_pairs"]):
        counts = images[a]["landmarks"], images[b]["landmarks"]
        if all(counts) and counts[0] != counts[1]:
            names = f"{images[a]['name']} and {images[b]['name']}"
            raise GradiconError(
                f"{names}: {counts[0]} and {counts[1]} landmarks, but rows must correspond"
            )
