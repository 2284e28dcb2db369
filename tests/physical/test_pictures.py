"""GIF files, as images like any others."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradicon.physical.images import read_image, read_space, read_volume

SHADES = np.arange(30, dtype=np.uint8).reshape(5, 6) * 8


def test_shades_are_read_as_they_are_stored(tmp_path: Path):
    Image.fromarray(SHADES).save(tmp_path / "a.gif")
    volume = read_volume(tmp_path / "a.gif")
    np.testing.assert_array_equal(volume.data[0, 0].numpy(), SHADES)
    assert volume.space.spacing_mm == (1, 1)
    space = read_space(tmp_path / "a.gif")
    assert space is not None
    assert space.shape == (5, 6)


def test_a_palette_of_black_and_white_is_black_and_white(tmp_path: Path):
    picture = Image.fromarray((SHADES > 100).astype(np.uint8), mode="P")
    picture.putpalette([0, 0, 0, 255, 255, 255])
    picture.save(tmp_path / "a.GIF")
    np.testing.assert_array_equal(
        read_volume(tmp_path / "a.GIF").data[0, 0].numpy(), 255 * (SHADES > 100)
    )


def test_what_is_no_grey_picture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    colours = Image.fromarray(np.stack([SHADES, SHADES, 255 - SHADES], 2))
    colours.save(tmp_path / "colours.gif")
    with pytest.raises(ValueError, match="shades of grey, got colours"):
        read_image(tmp_path / "colours.gif")
    grey = Image.fromarray(SHADES)
    grey.save(tmp_path / "film.gif", save_all=True, append_images=[Image.fromarray(255 - SHADES)])
    with pytest.raises(ValueError, match="shades of grey, got 2 pictures"):
        read_image(tmp_path / "film.gif")
    (tmp_path / "text.gif").write_text("text")
    with pytest.raises(ValueError, match="not an image that can be read"):
        read_image(tmp_path / "text.gif")
    whole = tmp_path / "whole.gif"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)).save(whole)
    (tmp_path / "cut.gif").write_bytes(whole.read_bytes()[:1500])
    with pytest.raises(ValueError, match="not an image that can be read"):
        read_image(tmp_path / "cut.gif")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match="needs Pillow: pip install"):
        read_image(whole)
