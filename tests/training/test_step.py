import pytest
import torch

from gradicon import ModelConfig, build, fold_percentage, gradient_inconsistency, lncc, mse
from gradicon.core.objective import bending_energy, diffusion, inconsistency, objective
from gradicon.core.transform import identity
from gradicon.training.batches import Inputs
from gradicon.training.config import LossConfig
from gradicon.training.pairs import points
from gradicon.training.step import TrainingStep, label_loss, landmark_loss, one_hot
from maps import blobs, smooth_field

SHAPE = (20, 16)


def inputs() -> Inputs:
    a, b = (torch.cat([blobs(SHAPE, seed), blobs(SHAPE, seed + 10)]) for seed in (1, 2))
    labels = [(image[:, 0] * 3).to(torch.uint8) for image in (a, b)]
    x = points(SHAPE, 0, 1, torch.device("cpu"))
    compared = torch.tensor([[1, 2, 3]] * 2)
    return Inputs(
        a, b, x, *labels, torch.full((2, 2, 3), 0.5), torch.full((2, 2, 3), 0.6), compared
    )


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    model = build(
        ModelConfig(dimension=2, stage=1, resolutions=2, down_channels=(4, 8), up_channels=(4, 8))
    )
    for name, value in model.named_parameters():
        if ".last." in name:
            torch.nn.init.normal_(value, std=0.1)
    return model


@pytest.mark.parametrize("name", ["gradicon", "icon", "diffusion", "bending"])
def test_each_regularizer_is_the_one_it_says(name: str):
    model = network()
    batch = inputs()
    _, scalars = TrainingStep(model, LossConfig(regularizer=name, sigma=3))(
        batch._replace(labels_a=None, landmarks_a=None)
    )
    want = {
        "gradicon": gradient_inconsistency,
        "icon": inconsistency,
        "diffusion": lambda ab, ba, _: diffusion(ab, SHAPE) + diffusion(ba, SHAPE),
        "bending": lambda ab, ba, _: bending_energy(ab, SHAPE) + bending_energy(ba, SHAPE),
    }[name]
    similarity = lambda warped, fixed: lncc(warped, fixed, sigma=3)  # noqa: E731
    found = objective(model, batch.a, batch.b, batch.x, similarity=similarity, penalty=want)
    assert found.penalty > 1e-5
    torch.testing.assert_close(scalars["penalty"], found.penalty.detach())
    torch.testing.assert_close(scalars["loss"], found.loss.detach())
    assert set(scalars) == {"loss", "similarity", "penalty"}


def test_windows_may_differ_by_axis():
    model = network()
    batch = inputs()
    _, scalars = TrainingStep(model, LossConfig(sigma=(1, 4)))(
        batch._replace(labels_a=None, landmarks_a=None)
    )
    found = objective(
        model, batch.a, batch.b, batch.x, similarity=lambda *pair: lncc(*pair, sigma=(1, 4))
    )
    torch.testing.assert_close(scalars["loss"], found.loss.detach())
    other = objective(
        model, batch.a, batch.b, batch.x, similarity=lambda *pair: lncc(*pair, sigma=(4, 1))
    )
    assert abs(other.loss - found.loss) > 1e-3


def test_the_papers_other_similarity_and_its_weight():
    model = network()
    batch = inputs()._replace(labels_a=None, landmarks_a=None)
    loss, _ = TrainingStep(model, LossConfig(similarity="mse"))(batch)
    torch.testing.assert_close(
        loss, objective(model, batch.a, batch.b, batch.x, similarity=mse, weight=0.2).loss
    )


def test_labels_and_landmarks_are_added_with_their_weights():
    model = network()
    batch = inputs()
    step = TrainingStep(model, LossConfig(label_weight=2, landmark_weight=0.5, similarity="mse"))
    loss, scalars = step(batch, folds=True)
    total = (
        scalars["similarity"]
        + 0.2 * scalars["penalty"]
        + 2 * scalars["labels"]
        + 0.5 * scalars["landmarks"]
    )
    torch.testing.assert_close(loss.detach(), total)
    assert scalars["folds"] == pytest.approx(
        float(fold_percentage(model(batch.a, batch.b), SHAPE).mean())
    )
    with torch.no_grad():
        u = model(batch.a, batch.b).materialise(SHAPE).u
    torch.testing.assert_close(scalars["magnitude"], (u**2).sum(1).mean())
    loss.backward()
    assert all(
        value.grad is not None and torch.isfinite(value.grad).all() for value in model.parameters()
    )


def test_soft_dice_of_hard_labels():
    labels = torch.zeros(1, 8, 8, dtype=torch.uint8)
    labels[:, 2:6, 2:6] = 1
    labels[:, 7] = 2
    three = torch.tensor([[1, 2, 3]])
    here = one_hot(labels, three)
    assert here.shape == (1, 3, 8, 8)
    still = identity(2)
    assert label_loss(still, here, here).item() == pytest.approx(0, abs=1e-5)
    other = one_hot(torch.where(labels == 1, 3, labels.int()), three)
    assert label_loss(still, other, here).item() == pytest.approx(
        2 / 3, abs=1e-5
    )  # 1 and 3 apart, 2 at one; three are there
    some = torch.tensor([[2, -1, -1]])  # only the second counts, and nothing is -1
    assert (
        label_loss(
            still, one_hot(torch.where(labels == 1, 3, labels.int()), some), one_hot(labels, some)
        ).item()
        == 0
    )


def test_landmarks_are_measured_in_voxels_through_the_map():
    phi = smooth_field(SHAPE, 1, dtype=torch.float32)
    fixed = torch.tensor([[[0.2, 0.5], [0.3, 0.6]]])
    assert landmark_loss(phi, fixed, phi(fixed), SHAPE).item() == pytest.approx(0, abs=1e-9)
    off = phi(fixed) + torch.tensor([[[2 / 19], [1 / 15]]])
    assert landmark_loss(phi, fixed, off, SHAPE).item() == pytest.approx(5, rel=1e-4)


def test_the_loss_of_a_batch_is_the_mean_of_its_pairs():
    """So that processes which share a batch compute what one would. BatchNorm aside: it is in
    evaluation mode here.
    """
    step = TrainingStep(network().eval(), LossConfig(label_weight=1, landmark_weight=1))
    batch = inputs()
    each = [
        step(Inputs(*(v if n == "x" else v[i : i + 1] for n, v in batch._asdict().items())))[0]
        for i in (0, 1)
    ]
    torch.testing.assert_close(step(batch)[0], (each[0] + each[1]) / 2)
