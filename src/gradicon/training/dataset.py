"""A folder of prepared images, memory-mapped, and checked to be what `prepare` wrote."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradicon.errors import GradiconError, MissingFileError
from gradicon.files import sha256_of
from gradicon.training.config import DataConfig

FORMAT = "gradicon-data-2"
METADATA = "dataset.json"
IMAGES = "images.npy"
LABELS = "labels.npy"
LANDMARKS = "landmarks.json"
FILES = (IMAGES, LABELS, LANDMARKS)


@dataclass(frozen=True)
class Group:
    """Images that belong together, by number.

    Any two of `images` make a pair to train on, or the (moving, fixed) `pairs` do.
    """

    images: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Prepared images, by number.

    Args:
        folder: where they are.
        sha256: of dataset.json, which holds the hashes of all the rest.
        metadata: what dataset.json says.
        images: (N, *shape), float16 in [0,1], on the disk.
        labels: (N, *shape), each value an index into the list of label values, or None.
        landmarks: of each image (D, P) on the unit cube, or None.
    """

    folder: Path
    sha256: str
    metadata: dict[str, Any]
    images: NDArray[np.float16]
    labels: NDArray[np.integer[Any]] | None
    landmarks: tuple[Tensor | None, ...]

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = True) -> "Dataset":
        """Map the folder's arrays. `verify` compares every byte with the hashes of `prepare`."""
        folder = Path(folder)
        metadata, digest = _metadata(folder)
        for name, want in metadata["files"].items():
            _check_file(folder, name, want, verify=verify)
        landmarks: list[Any] = [None] * len(metadata["images"])
        if LANDMARKS in metadata["files"]:
            landmarks = json.loads((folder / LANDMARKS).read_text(encoding="utf-8"))
        return cls(
            folder=folder,
            sha256=digest,
            metadata=metadata,
            images=_mapped(folder, IMAGES),
            labels=_mapped(folder, LABELS) if LABELS in metadata["files"] else None,
            landmarks=tuple(
                None if points is None else torch.tensor(points).mT.contiguous()
                for points in landmarks
            ),
        )

    @property
    def names(self) -> list[str]:
        """Of the scans, as the list of images had them."""
        return [str(image["name"]) for image in self.metadata["images"]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every image."""
        return tuple(int(n) for n in self.images.shape[1:])

    @property
    def label_count(self) -> int:
        """How many labels there are, without the background."""
        return max(len(self.metadata["labels"]) - 1, 0)

    @property
    def groups(self) -> tuple[Group, ...]:
        """What to train on: one group, or where folders were joined one of each."""
        return tuple(
            Group(tuple(group["train"]), tuple((int(a), int(b)) for a, b in group["train_pairs"]))
            for group in self.metadata.get("groups", [self.metadata])
        )

    @property
    def validation_pairs(self) -> tuple[tuple[int, int], ...]:
        """The (moving, fixed) pairs to judge by."""
        return tuple(
            (int(moving), int(fixed)) for moving, fixed in self.metadata["validation_pairs"]
        )

    def has_labels(self, images: Sequence[int]) -> bool:
        """Whether all of these images came with labels."""
        return self.labels is not None and all(self.metadata["images"][i]["labels"] for i in images)

    def unit_to_mm(self, image: int) -> Tensor:
        """The linear part (D, D) of the map from the unit cube to LPS mm: what differences need."""
        matrix = torch.tensor(self.metadata["images"][image]["index_to_mm"], dtype=torch.float64)
        return (matrix[:-1, :-1] * torch.tensor([n - 1 for n in self.shape])).float()

    def check_recipe(self, data: DataConfig) -> None:
        """Refuse a recipe that would have prepared these images in another way."""
        wanted: dict[str, Any] = json.loads(json.dumps(asdict(data)))
        for name, value in wanted.items():
            if (found := self.metadata["data"].get(name)) != value:
                raise GradiconError(
                    f"{self.folder}: prepared with {name} = {found}, but the recipe says "
                    f"{value}: prepare it again"
                )


def _metadata(folder: Path) -> tuple[dict[str, Any], str]:
    if not (folder / METADATA).is_file():
        raise MissingFileError(f"{folder}: no prepared data here: make it with `gradicon prepare`")
    content = (folder / METADATA).read_bytes()
    try:
        metadata = json.loads(content)
        found = metadata["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise GradiconError(f"{folder}: {METADATA} cannot be read: prepare it again") from error
    if found != FORMAT:
        raise GradiconError(
            f"{folder}: prepared in the format {found}, this version reads {FORMAT}: "
            "prepare it again"
        )
    return metadata, sha256(content).hexdigest()


def _check_file(folder: Path, name: str, want: dict[str, Any], *, verify: bool) -> None:
    path = folder / name
    if not path.is_file():
        raise MissingFileError(f"{folder}: {name} is missing: prepare it again")
    if path.stat().st_size != want["bytes"] or (verify and sha256_of(path) != want["sha256"]):
        raise GradiconError(f"{folder}: {name} has changed since it was prepared: prepare it again")


def _mapped(folder: Path, name: str) -> NDArray[Any]:
    try:
        return np.load(folder / name, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise GradiconError(f"{folder}: {name} is no array: prepare it again") from error
