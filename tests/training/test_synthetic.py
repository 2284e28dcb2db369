"""Images of no anatomy: what they are made of, and that a network can be trained on them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gradicon.core.jacobian import fold_percentage
from gradicon.training.config import DataConfig
from gradicon.training.dataset import Dataset
from gradicon.training.pairs import generator
from gradicon.training.synthetic import random_diffeomorphism, store_synthetic, synthetic_pair
from test_cli import assert_one_line_error, gradicon

SHAPES = [(40, 48), (20, 24, 16)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_pair_is_two_views_of_one_thing(shape: tuple[int, ...]):
    alike = []
    for number in range(6):
        still = synthetic_pair(shape, seed=0, number=number, strength=0.0)
        assert torch.equal(*still.labels)
        assert not torch.equal(*still.images)
        alike.append(np.corrcoef(*(image.flatten().numpy() for image in still.images))[0, 1])
    assert np.mean(alike) > 0.75
    moved = synthetic_pair(shape, seed=0, number=1)
    for image in moved.images:
        assert image.shape == torch.Size(shape)
        assert 0 == image.min() < image.max() == 1
    same = (moved.labels[0] == moved.labels[1]).float().mean()
    assert 0.2 < same < 0.98


@pytest.mark.parametrize("shape", SHAPES)
def test_labels_tell_the_shades_of_an_image(shape: tuple[int, ...]):
    for number in range(3):
        pair = synthetic_pair(shape, seed=5, number=number)
        for image, labels in zip(pair.images, pair.labels, strict=True):
            within = torch.stack(
                [
                    (image[labels == k] - image[labels == k].mean()).square().sum()
                    for k in labels.unique()
                ]
            ).sum()
            assert within < 0.8 * (image - image.mean()).square().sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_warps_are_diffeomorphisms_of_some_size(shape: tuple[int, ...]):
    sizes = []
    for number in range(8):
        phi = random_diffeomorphism(shape, generator(0, number))
        assert fold_percentage(phi, shape) == 0
        sizes.append(float(phi.u.abs().max()))
    assert 0.05 < np.mean(sizes) < 0.25


def test_a_pair_depends_on_its_number_and_seed_alone():
    first = synthetic_pair(SHAPES[0], seed=0, number=3)
    torch.manual_seed(7)
    assert torch.equal(first.images[0], synthetic_pair(SHAPES[0], seed=0, number=3).images[0])
    for seed, number in ((1, 3), (0, 4)):
        assert not torch.equal(
            first.images[0], synthetic_pair(SHAPES[0], seed=seed, number=number).images[0]
        )


def test_they_are_stored_as_pairs_with_labels(tmp_path: Path):
    store_synthetic(tmp_path / "data", DataConfig(shape=SHAPES[1], pairs="intra"), 3, validation=2)
    data = Dataset.open(tmp_path / "data")
    assert (data.groups[0].pairs, data.validation_pairs) == (
        ((0, 1), (2, 3), (4, 5)),
        ((6, 7), (8, 9)),
    )
    assert data.has_labels(range(10))
    want = synthetic_pair(SHAPES[1], seed=0, number=4)
    np.testing.assert_array_equal(data.images[9], want.images[1].numpy().astype(np.float16))


def test_the_command_and_what_it_refuses(tmp_path: Path):
    (tmp_path / "r.toml").write_text('[data]\nshape = [24, 20]\npairs = "intra"\n')
    told = gradicon(
        "synthesise", "--recipe", tmp_path / "r.toml", "--count", 2, "-o", tmp_path / "data"
    )
    assert told.returncode == 0, told.stderr
    assert "2 pairs" in told.stdout
    assert len(Dataset.open(tmp_path / "data").images) == 4
    (tmp_path / "r.toml").write_text("[data]\nshape = [24, 20]\n")
    told = gradicon(
        "synthesise", "--recipe", tmp_path / "r.toml", "--count", 2, "-o", tmp_path / "more"
    )
    assert_one_line_error(told, 'synthetic images come in pairs: say pairs = "intra"')
