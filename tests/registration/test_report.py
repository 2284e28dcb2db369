import base64
import gzip
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from gradicon.registration.result.report import ReportContent, render_report
from maps import smooth_field

HOSTILE = "<script>alert(1)</script> \"quoted\" 'single' & @@volumes@@ </title> \\1"
TAG_WITH_SOURCE = re.compile(r"<[^>]+\b(?:src|srcset|data|action)\s*=", re.IGNORECASE)


def content(shape: tuple[int, ...] = (5, 6, 7)) -> ReportContent:
    random = torch.Generator().manual_seed(len(shape))
    fixed, moving, warped = torch.rand(3, *shape, generator=random)
    return ReportContent(
        title="moving.nii.gz onto fixed.nii.gz",
        fixed=fixed,
        moving=moving,
        warped=warped,
        displacement=4 * torch.randn(len(shape), *shape, generator=random),
        jacobian=torch.rand(shape, generator=random) * 3 - 0.5,
        spacing_mm=(2.0, 1.0, 1.5)[: len(shape)],
        numbers=[("Dice", "0.5", "0.8"), ("Folds (%)", "", "0.01")],
        meanings=[("Dice", "overlap <of> labels; higher is better")],
        tables=[("Dice by label", ["label", "before", "after"], [["caudate", "0.4", "0.7"]])],
        provenance=[("gradicon", "1.2.3")],
        notes=["A note."],
    )


def embedded(page: str, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    found = re.findall(rf'<script type="text/plain" id="volume-{name}">([^<]*)</script>', page)
    assert len(found) == 1
    return np.frombuffer(gzip.decompress(base64.b64decode(found[0], validate=True)), dtype).reshape(
        shape
    )


class Reader(HTMLParser):
    """The elements and the text that a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("shape", [(6, 7), (5, 6, 7)])
def test_the_page_needs_no_other_file(shape: tuple[int, ...]):
    page = render_report(content(shape))
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert not TAG_WITH_SOURCE.search(page)
    assert re.findall(r'href="([^"]*)"', page) == ["data:,"]
    assert "default-src 'none'" in page


def test_no_marker_is_left_in_the_page():
    assert "@@" not in render_report(content())


@pytest.mark.parametrize("shape", [(6, 7), (5, 6, 7)])
def test_the_volumes_decode_to_the_values_given(shape: tuple[int, ...]):
    given = content(shape)
    page = render_report(given)
    for name, image in (("fixed", given.fixed), ("moving", given.moving), ("warped", given.warped)):
        np.testing.assert_allclose(
            embedded(page, name, "u1", shape) / 255, image.numpy(), atol=0.5 / 255 + 1e-6
        )
    displacement = embedded(page, "displacement", "<i2", (len(shape), *shape)) / 64
    np.testing.assert_allclose(displacement, given.displacement.numpy(), atol=0.5 / 64 + 1e-6)
    jacobian = embedded(page, "jacobian", "u1", shape)
    determinant = given.jacobian.numpy()
    assert np.array_equal(jacobian == 0, determinant <= 0)
    np.testing.assert_allclose(
        (jacobian[jacobian > 0] - 1.0) / 127,
        determinant[jacobian > 0].clip(0, 2),
        atol=0.5 / 127 + 1e-6,
    )


@pytest.mark.parametrize(("shape", "spacing"), [((6, 7), [2.0, 1.0]), ((5, 6, 7), [2.0, 1.0, 1.5])])
def test_the_grid_is_given_in_array_order(shape: tuple[int, ...], spacing: list[float]):
    found = re.findall(
        r'<script type="application/json" id="grid">(.*?)</script>', render_report(content(shape))
    )
    assert [json.loads(text) for text in found] == [{"shape": list(shape), "spacing": spacing}]


def test_no_change_of_volume_is_the_middle_of_the_scale_and_only_folds_are_zero():
    determinant = torch.tensor([[1.0, 0.0, -3.0, 1e-9], [2.0, 50.0, float("nan"), float("inf")]])
    page = render_report(replace(content((2, 4)), jacobian=determinant))
    assert embedded(page, "jacobian", "u1", (2, 4)).tolist() == [[128, 0, 0, 1], [255, 255, 0, 255]]


def test_values_beyond_the_range_are_clipped():
    given = content((2, 2))
    image = torch.tensor([[-1.0, 2.0], [float("nan"), float("inf")]])
    displacement = torch.tensor([[[1e6, -1e6], [float("nan"), 1.0]], [[0.0, 0.0], [0.0, 0.0]]])
    page = render_report(replace(given, fixed=image, displacement=displacement))
    assert embedded(page, "fixed", "u1", (2, 2)).tolist() == [[0, 255], [0, 255]]
    assert embedded(page, "displacement", "<i2", (2, 2, 2))[0].tolist() == [
        [32767, -32767],
        [0, 64],
    ]


def test_tensors_of_any_layout_and_precision_are_taken():
    given = content((6, 7))
    view = given.fixed.double().t().contiguous().t().requires_grad_()
    assert render_report(replace(given, fixed=view)) == render_report(given)


def saying(text: str) -> ReportContent:
    """A report with `text` in every place that takes text, 15 on the page."""
    return replace(
        content(),
        title=text,
        notes=[text],
        numbers=[(text, text, text)],
        meanings=[(text, text)],
        tables=[(text, [text, text], [[text, text]])],
        provenance=[(text, text)],
    )


def test_hostile_text_stays_text():
    tame, hostile = (Reader(render_report(saying(text))) for text in ("tame", HOSTILE))
    assert hostile.tags == tame.tags
    assert hostile.text.count(HOSTILE) == 15


def test_a_file_name_that_is_no_unicode_can_be_written():
    assert "scan?.nii" in render_report(replace(content(), title="scan\udcff.nii")).encode(
        "utf-8"
    ).decode("utf-8")


def test_everything_said_is_on_the_page():
    text = Reader(render_report(content())).text
    for part in (
        "moving.nii.gz onto fixed.nii.gz",
        "Dice",
        "0.8",
        "Dice by label",
        "caudate",
        "0.7",
        "1.2.3",
        "A note.",
    ):
        assert part in text


def test_nothing_to_say_leaves_no_empty_tables():
    page = render_report(
        replace(content(), numbers=[], meanings=[], tables=[], provenance=[], notes=[])
    )
    assert "<table" not in page
    assert '<div class="tables"></div>' in page
    assert "<dl></dl>" in page


def test_the_same_content_gives_the_same_page():
    assert render_report(content()) == render_report(content())


def test_a_page_stays_under_nine_bytes_a_voxel():
    """Noise is the worst case for the images, 4/3 bytes a voxel each; a displacement field is
    smooth.
    """
    shape = (32, 40, 36)
    voxels = torch.tensor([n - 1.0 for n in shape]).reshape(3, 1, 1, 1)
    displacement = smooth_field(shape, 1, dtype=torch.float32).u[0] * voxels
    page = render_report(replace(content(shape), displacement=displacement))
    assert len(page) < 30_000 + 9 * 32 * 40 * 36


@pytest.mark.parametrize("name", ["moving", "warped", "jacobian"])
def test_an_image_on_another_grid_is_named(name: str):
    with pytest.raises(
        ValueError, match=rf"^{name} must have the shape of fixed, \(5, 6, 7\), got \(5, 6, 8\)$"
    ):
        replace(content(), **{name: torch.zeros(5, 6, 8)})


@pytest.mark.parametrize("shape", [(2, 5, 6, 7), (5, 6, 7), (3, 5, 6, 8)])
def test_a_displacement_of_the_wrong_shape_is_named(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"^displacement must have the shape \(3, 5, 6, 7\), got "):
        replace(content(), displacement=torch.zeros(shape))


@pytest.mark.parametrize("shape", [(7,), (1, 1, 5, 6, 7), (0, 6, 7)])
def test_a_fixed_image_that_is_no_image_is_named(shape: tuple[int, ...]):
    with pytest.raises(
        ValueError, match=r"^fixed must have the shape \(y, x\) or \(z, y, x\), got "
    ):
        replace(content(), fixed=torch.zeros(shape))


@pytest.mark.parametrize("spacing", [(1.0, 1.0), (1.0, 1.0, 0.0), (1.0, 1.0, float("nan"))])
def test_a_spacing_that_is_none_is_named(spacing: tuple[float, ...]):
    with pytest.raises(ValueError, match=r"^spacing_mm must be 3 positive numbers, got "):
        replace(content(), spacing_mm=spacing)


def test_a_ragged_table_is_named():
    with pytest.raises(ValueError, match=r"^tables: every row of 'Dice' must have 2 cells$"):
        replace(content(), tables=[("Dice", ["label", "after"], [["caudate"]])])
