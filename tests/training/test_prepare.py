import json
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon.training.dataset import Dataset
from gradicon.training.prepare import lost_detail, prepare
from gradicon.training.recipe import parse_recipe
from training.scans_on_disk import prepared, recipe_of, scans, write_csv, write_image

ORIENTATIONS = ["LPS", "RAS", "LAS", "PIR", "SAL"]
IN_3D = '[data]\nshape = [16, 20, 18]\nmodality = "mr"\n'


@pytest.fixture
def oriented(tmp_path: Path) -> Path:
    """One brain stored in five ways, with a bright spot, a label and a landmark on its left."""
    data = np.random.default_rng(0).uniform(0, 100, (20, 26, 24)).astype(np.float32)
    data[12:15, 6:9, 17:20] = 400
    labels = np.zeros(data.shape, np.int16)
    labels[12:15, 6:9, 17:20] = 300
    labels[3:6, 15:20, 3:6] = -2
    image = sitk.ReadImage(str(write_image(tmp_path / "image.nii.gz", data)))
    spot = image.TransformIndexToPhysicalPoint((18, 7, 13))
    write_csv(tmp_path / "points.csv", ["label", "x", "y", "z"], [["spot", *map(str, spot)]])
    marked = sitk.ReadImage(str(write_image(tmp_path / "labels.nii.gz", labels)))
    for code in ORIENTATIONS:
        sitk.WriteImage(sitk.DICOMOrient(image, code), str(tmp_path / f"i{code}.nii.gz"))
        sitk.WriteImage(sitk.DICOMOrient(marked, code), str(tmp_path / f"l{code}.nii.gz"))
    rows = [[f"i{code}.nii.gz", f"l{code}.nii.gz", "points.csv"] for code in ORIENTATIONS]
    return write_csv(tmp_path / "images.csv", ["image", "labels", "landmarks"], rows)


@pytest.mark.parametrize("crop", ["", 'crop = "center"\nspacing_mm = [2.0, 2.0, 2.0]\n'])
def test_left_stays_left_however_it_is_stored(oriented: Path, tmp_path: Path, crop: str):
    prepare(oriented, parse_recipe(IN_3D + crop), tmp_path / "data")
    data = Dataset.open(tmp_path / "data")
    assert data.images.shape == (5, 16, 20, 18)
    assert data.images.dtype == np.float16
    assert data.labels is not None
    assert data.labels.dtype == np.uint8
    assert data.metadata["labels"] == {"0": 0, "-2": 1, "300": 2}
    assert data.images.min() >= 0
    assert data.images.max() <= 1
    for image, labels, landmarks in zip(data.images, data.labels, data.landmarks, strict=True):
        np.testing.assert_allclose(image.astype(float), data.images[0].astype(float), atol=2e-3)
        np.testing.assert_array_equal(labels, data.labels[0])
        assert landmarks is not None
        index = landmarks[:, 0] * torch.tensor([n - 1.0 for n in image.shape])
        assert labels[tuple(index.round().int())] == 2
        assert index[2] > image.shape[2] / 2
        centre = np.argwhere(labels == 2).mean(0)
        np.testing.assert_allclose(index, centre, atol=0.7)
        assert set(np.unique(labels)) == {0, 1, 2}


def test_prepared_voxels_are_where_they_say(oriented: Path, tmp_path: Path):
    """SimpleITK, asked for the grid that dataset.json states, reads the same labels."""
    center = 'crop = "center"\nspacing_mm = [1.9, 1.7, 2.1]\n'
    prepare(oriented, parse_recipe(IN_3D + center), tmp_path / "data")
    data = Dataset.open(tmp_path / "data")
    matrix = np.array(data.metadata["images"][1]["index_to_mm"])
    columns = matrix[:3, :3][:, ::-1]
    spacing = np.linalg.norm(columns, axis=0)
    np.testing.assert_allclose(spacing, [2.1, 1.7, 1.9])
    stored = sitk.ReadImage(str(oriented.parent / "iRAS.nii.gz"))
    centre = stored.TransformContinuousIndexToPhysicalPoint([(n - 1) / 2 for n in stored.GetSize()])
    np.testing.assert_allclose(matrix[:3] @ [7.5, 9.5, 8.5, 1], centre, atol=1e-4)
    grid = sitk.Image([18, 20, 16], sitk.sitkInt16)
    grid.SetSpacing(spacing.tolist())
    grid.SetDirection((columns / spacing).ravel().tolist())
    grid.SetOrigin(matrix[:3, 3].tolist())
    labels = sitk.ReadImage(str(oriented.parent / "lRAS.nii.gz"))
    want = sitk.GetArrayFromImage(
        sitk.Resample(labels, grid, sitk.Transform(), sitk.sitkNearestNeighbor)
    )
    assert data.labels is not None
    dense = np.vectorize({0: 0, -2: 1, 300: 2}.get)(want)
    assert (dense != data.labels[1]).mean() < 0.003


def test_a_mask_blacks_out_what_is_outside(tmp_path: Path):
    scans(tmp_path, 2)
    mask = np.zeros((24, 16), np.uint8)
    mask[:12] = 1
    write_image(tmp_path / "mask.nii.gz", mask)
    manifest = write_csv(
        tmp_path / "m.csv", ["image", "mask"], [["i0.nii.gz", "mask.nii.gz"], ["i1.nii.gz", ""]]
    )
    prepare(manifest, recipe_of(), tmp_path / "data")
    data = Dataset.open(tmp_path / "data")
    assert (data.images[0, 12:] == 0).all()
    assert data.images[0, :12].max() == 1
    assert data.images[1, 12:].max() > 0.5
    with pytest.raises(ValueError, match="has a mask, but the recipe says mask_outside = false"):
        prepare(
            manifest,
            recipe_of(("shape = [24, 16]", "shape = [24, 16]\nmask_outside = false")),
            tmp_path / "other",
        )


def test_given_pairs(tmp_path: Path):
    scans(tmp_path, 3)
    recipe = recipe_of(("shape = [24, 16]", 'shape = [24, 16]\npairs = "intra"'))
    manifest = write_csv(
        tmp_path / "m.csv",
        ["fixed", "moving"],
        [["i0.nii.gz", "i1.nii.gz"], ["i0.nii.gz", "i2.nii.gz"]],
    )
    prepare(manifest, recipe, tmp_path / "data", validation=tmp_path / "pairs.csv")
    data = Dataset.open(tmp_path / "data")
    assert data.groups[0].images == ()
    named = [(data.names[moving], data.names[fixed]) for moving, fixed in data.groups[0].pairs]
    assert named == [("i1.nii.gz", "i0.nii.gz"), ("i2.nii.gz", "i0.nii.gz")]
    assert [(data.names[m], data.names[f]) for m, f in data.validation_pairs] == [
        ("i1.nii.gz", "i0.nii.gz")
    ]
    assert data.has_labels(data.validation_pairs[0])
    assert not data.has_labels(data.groups[0].pairs[0])


def test_a_grid_that_loses_much_detail_is_told(tmp_path: Path):
    manifest = scans(tmp_path, 2, shape=(24, 120))
    same, coarse = (
        prepare(manifest, recipe_of(("[24, 16]", f"[24, {n}]")), tmp_path / f"{n}", validation=None)
        for n in (100, 16)
    )
    assert lost_detail(same) == ""
    assert (
        lost_detail(coarse)
        == "i0.nii.gz has voxels of 1.5 mm along axis 1 of the grid, the grid of 11.9 mm"
    )


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        (["image"], [["i0.nii.gz"]], "one image only"),
        (["images"], [["i0.nii.gz"]], "the column 'image' is missing"),
        (["image"], [["i0.nii.gz"], ["none.nii.gz"]], "row 2: image .*none.nii.gz does not exist"),
        (["image"], [["i0.nii.gz"], ["l9.nii.gz"]], "row 2: image .* does not exist"),
        (
            ["image", "labels"],
            [["i0.nii.gz", "l0.nii.gz"], ["i1.nii.gz", "i0.nii.gz"]],
            "i0.nii.gz: labels must be whole numbers",
        ),
        (
            ["image", "labels"],
            [["i0.nii.gz", "big.nii.gz"], ["i1.nii.gz", ""]],
            "big.nii.gz: lies on another grid than its image",
        ),
        (["image"], [["i0.nii.gz"], ["flat.nii.gz"]], "flat.nii.gz: there is nothing to see"),
        (
            ["image"],
            [["i0.nii.gz"], ["solid.nii.gz"]],
            "solid.nii.gz: a 3-D image, but the recipe's shape is 2-D",
        ),
        (["image"], [["i0.nii.gz"], ["broken.nii.gz"]], "broken.nii.gz"),
        (["image"], [["i0.nii.gz"], [""]], "row 2: image is empty"),
        (["image"], [["i0.nii.gz", "more"]], "row 1 has more cells than the header"),
    ],
)
def test_bad_lists_leave_nothing_behind(
    tmp_path: Path, unhooked: None, header: list[str], rows: list[list[str]], message: str
):
    scans(tmp_path, 2)
    write_image(tmp_path / "big.nii.gz", np.ones((25, 16), np.uint8))
    write_image(tmp_path / "flat.nii.gz", np.ones((24, 16), np.float32))
    write_image(tmp_path / "solid.nii.gz", np.random.default_rng(0).random((8, 8, 8)))
    (tmp_path / "broken.nii.gz").write_bytes((tmp_path / "i0.nii.gz").read_bytes()[:99])
    before = set(tmp_path.iterdir()) | {tmp_path / "m.csv"}
    with pytest.raises((ValueError, OSError), match=message) as error:
        prepare(write_csv(tmp_path / "m.csv", header, rows), recipe_of(), tmp_path / "data")
    assert "\n" not in str(error.value)
    assert set(tmp_path.iterdir()) == before


def test_only_prepared_data_are_replaced(tmp_path: Path):
    data = prepared(tmp_path)
    first = json.loads((data / "dataset.json").read_text())
    with pytest.raises(FileExistsError, match="exists: choose another place, or say --overwrite"):
        prepare(tmp_path / "images.csv", recipe_of(), data)
    prepare(tmp_path / "images.csv", recipe_of(), data, overwrite=True)
    assert json.loads((data / "dataset.json").read_text())["files"] == first["files"]
    with pytest.raises(FileExistsError, match="is no folder of prepared data"):
        prepare(tmp_path / "images.csv", recipe_of(), tmp_path, overwrite=True)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
