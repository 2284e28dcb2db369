import numpy as np
import pytest
import torch

from gradicon.physical.intensity import looks_like_ct
from gradicon.physical.preprocess import Scaling
from gradicon.physical.space import Space
from gradicon.physical.volume import Volume


def volume(values: torch.Tensor) -> Volume:
    return Volume(values[None, None], Space(tuple(values.shape), np.eye(values.ndim + 1)))


def test_mr_is_clipped_at_its_percentiles():
    values = torch.randint(
        0, 4000, (20, 30), generator=torch.Generator().manual_seed(0), dtype=torch.int16
    )
    low, high = np.quantile(values.numpy(), [0.01, 0.99])
    scaled = Scaling(kind="mr")(volume(values).data)
    assert scaled.dtype == torch.float32
    np.testing.assert_allclose(
        scaled[0, 0], (values.numpy().clip(low, high) - low) / (high - low), atol=1e-6
    )


def test_ct_is_clipped_to_a_window():
    values = torch.tensor([[-2000.0, -1000.0], [0.0, 3000.0]])
    assert Scaling(kind="ct")(volume(values).data).flatten().tolist() == [0.0, 0.0, 0.5, 1.0]


def test_a_constant_image_is_refused():
    with pytest.raises(
        ValueError, match="nothing to see between intensities 7 and 7: the image is constant"
    ):
        Scaling(kind="mr")(torch.full((4, 4), 7))


def test_a_window_and_percentiles_may_be_chosen():
    values = torch.tensor([[-2000.0, -1000.0], [-500.0, 0.0]])
    lungs = Scaling(kind="ct", window=(-1000.0, 0.0))
    assert lungs(values).flatten().tolist() == [0.0, 0.0, 0.5, 1.0]
    ranks = torch.arange(101.0)
    assert Scaling(kind="mr", percentiles=(20.0, 70.0))(ranks)[45] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "is_ct"),
    [
        ([-1000, 0, 300], True),
        ([0, 0, 4000], False),
        ([-1000, 0, 100], False),
        ([-600.5, 0, 900], False),
    ],
)
def test_what_looks_like_ct(values: list[float], is_ct: bool):
    assert looks_like_ct(volume(torch.tensor([values]))) == is_ct
