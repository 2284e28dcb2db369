"""One preparation: what a network is trained on is what it is asked about, to the last bit."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon import ModelConfig, Options, build, register
from gradicon.models import Preprocessing, save
from gradicon.training.config import DataConfig
from gradicon.training.dataset import Dataset
from gradicon.training.prepare import prepare
from gradicon.training.recipe import parse_recipe
from training.scans_on_disk import write_csv

SMALL = {"resolutions": 1, "down_channels": (4, 8), "up_channels": (4, 8)}


def scan(
    path: Path, seed: int, shape: tuple[int, ...], spacing: tuple[float, ...], *, ct: bool = False
) -> Path:
    """A smooth random image, turned in space; `spacing` in ITK's order, as `shape` is not."""
    generator = np.random.default_rng(seed)
    image = sitk.GetImageFromArray(generator.normal(size=shape).astype(np.float32))
    image = sitk.RescaleIntensity(sitk.SmoothingRecursiveGaussian(image, 1.5), 0, 1000)
    if ct:
        image = sitk.Cast(image * 2 - 1100, sitk.sitkInt16)
    image.SetSpacing(spacing)
    image.SetOrigin([10.0 * (seed + axis) for axis in range(len(shape))])
    if len(shape) == 3:
        turn = sitk.Euler3DTransform((0, 0, 0), 0.3, -0.2, 0.1 + 0.1 * seed)
        image.SetDirection(turn.GetMatrix())
    sitk.WriteImage(image, str(path))
    return path


CASES = {
    "thick slices": ((10, 60, 52), (1.4, 1.4, 8.0), {"shape": (24, 24, 24)}),
    "a finer grid": ((20, 22, 18), (2.0, 2.1, 2.2), {"shape": (32, 40, 36)}),
    "a coarser grid": ((50, 40, 45), (1.0, 1.1, 0.9), {"shape": (16, 16, 16)}),
    "about the centre": (
        (40, 44, 30),
        (1.0, 1.2, 1.1),
        {"shape": (30, 20, 24), "crop": "center", "spacing_mm": (1.7, 2.0, 0.9)},
    ),
    "2-D": ((60, 48), (0.7, 0.9), {"shape": (24, 32)}),
    "a CT": ((30, 40, 36), (1.0, 1.0, 2.0), {"shape": (20, 24, 16), "window": (-900.0, 100.0)}),
    "resampled first": (
        (40, 38, 30),
        (1.0, 1.0, 1.0),
        {"shape": (20, 16, 24), "order": "resample, scale, mask", "percentiles": (5.0, 90.0)},
    ),
}


def toml_of(data: dict[str, object]) -> str:
    lines = [f"{name} = {list(v) if isinstance(v, tuple) else repr(v)}" for name, v in data.items()]
    return "[data]\n" + "\n".join(lines).replace("'", '"') + "\n"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_prepare_and_register_find_the_same_tensor(tmp_path: Path, case: str, masked: bool):
    shape, spacing, data = CASES[case]
    paths = [scan(tmp_path / f"{i}.nii.gz", i, shape, spacing, ct=case == "a CT") for i in range(2)]
    masks: list[Path | None] = [None, None]
    if masked:
        masks = [_mask(path) for path in paths]
    rows = [
        [path.name, "" if mask is None else mask.name]
        for path, mask in zip(paths, masks, strict=True)
    ]
    recipe = parse_recipe(toml_of(data))
    prepare(write_csv(tmp_path / "l.csv", ["image", "mask"], rows), recipe, tmp_path / "out")
    stored = torch.from_numpy(np.array(Dataset.open(tmp_path / "out").images))

    dimension = len(shape)
    model = build(ModelConfig(dimension=dimension, stage=1, **SMALL))  # type: ignore[arg-type]
    preprocessing = recipe.preprocessing
    save(model, tmp_path / "m.safetensors", preprocessing=preprocessing)
    options = Options(model=str(tmp_path / "m.safetensors"), refine=0, device="cpu")
    pair = register(paths[0], paths[1], options, fixed_mask=masks[0], moving_mask=masks[1]).pair
    assert torch.equal(pair.fixed[0, 0].half(), stored[0])
    assert torch.equal(pair.moving[0, 0].half(), stored[1])
    assert stored[0].float().std() > 0.1


def _mask(path: Path) -> Path:
    image = sitk.ReadImage(str(path))
    middle = float(np.median(sitk.GetArrayViewFromImage(image)))
    sitk.WriteImage(image > middle - 50, str(path.with_name(f"mask{path.name}")))
    return path.with_name(f"mask{path.name}")


def asked(tmp_path: Path, options: dict[str, object], **fields: object):
    """Two scans that look like MR, and what a model of these fields makes of them."""
    model = build(ModelConfig(stage=1, **SMALL))  # type: ignore[arg-type]
    given: dict[str, object] = {"shape": (16, 18, 20), **fields}
    save(model, tmp_path / "m.safetensors", preprocessing=Preprocessing(**given))  # type: ignore[arg-type]
    paths = [scan(tmp_path / f"{i}.nii.gz", i, (30, 28, 26), (1.0, 1.2, 1.1)) for i in range(2)]
    masks = [_mask(path) for path in paths]
    chosen = {"model": str(tmp_path / "m.safetensors"), "refine": 0, "device": "cpu"} | options
    return register(*paths, Options(**chosen), fixed_mask=masks[0], moving_mask=masks[1])  # type: ignore[arg-type]


CHANGES: dict[str, object] = {
    "shape": (20, 18, 16),
    "modality": "ct",
    "window": (200.0, 400.0),
    "percentiles": (20.0, 60.0),
    "order": "resample, scale, mask",
    "mask_outside": False,
    "augmented": True,
    "crop": "center",
    "spacing_mm": (2.0, 2.0, 2.0),
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_of_the_header_changes_what_is_done(tmp_path: Path, field: str):
    base: dict[str, object] = {}
    if field == "window":
        base = {"modality": "ct", "window": (0.0, 1000.0)}
    if field in ("crop", "spacing_mm"):
        base = {"crop": "center", "spacing_mm": (1.0, 1.0, 1.0)}
    changed = base | {field: CHANGES[field]}
    if field == "crop":
        base = {}
        changed = {"crop": "center", "spacing_mm": (1.0, 1.0, 1.0)}
    before = asked(tmp_path, {}, **base)
    after = asked(tmp_path, {}, **changed)
    if field == "augmented":
        assert (before.plan.start, after.plan.start) == ("model", "auto")
    else:
        same = before.pair.fixed.shape == after.pair.fixed.shape
        assert not (same and torch.equal(before.pair.fixed, after.pair.fixed))


def test_the_table_of_changes_is_whole():
    assert set(CHANGES) == set(asdict(Preprocessing(shape=(8, 8))))
    assert set(CHANGES) - {"augmented"} | {"pairs"} == set(asdict(DataConfig(shape=(8, 8))))


def test_what_is_said_overrules_the_header(tmp_path: Path):
    said = asked(tmp_path, {"fixed_modality": "mr", "moving_modality": "mr"}, modality="ct")
    assert said.plan.kinds == ("mr", "mr")
    assert asked(tmp_path, {}, modality="ct").plan.kinds == ("ct", "ct")
    compared = asked(tmp_path, {"mask_outside": False})
    assert compared.pair.fixed_weight is not None
    assert float(compared.pair.fixed_weight.mean()) < 0.99
