"""The network and optimizer of a stage, fresh or as a checkpoint left them."""

from typing import Any

import torch

from gradicon.errors import GradiconError
from gradicon.models import Model, build
from gradicon.models.build import ModelConfig
from gradicon.models.checkpoint import load_strictly
from gradicon.training.config import Recipe
from gradicon.training.pairs import generator
from gradicon.training.state import Checkpoint


def stage_of(step: int, recipe: Recipe) -> int:
    """The stage that trains after `step` steps are done."""
    return 1 if step < recipe.training.stage1_steps else 2


def new_model(recipe: Recipe, stage: int, before: Model | None = None) -> Model:
    """A stage's network, whose fresh weights depend on the seed and the stage alone.

    Stage2 = TwoStep(Stage1, Psi4) takes the weights of its Stage1 from `before`; so does ICON,
    whose Stage1 is its part at half resolution.
    """
    config = ModelConfig.from_dict(recipe.model.to_dict() | {"stage": stage})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(recipe.training.seed, "weights", stage).initial_seed())
        model = build(config)
    if before is not None:
        model.net.get_submodule("first").load_state_dict(before.net.state_dict())
    return model


def first_model(recipe: Recipe, start: Model | None) -> Model:
    """The network that a run begins with: fresh, or `start`, a trained one.

    A trained Stage1 gets a new Psi4 where the recipe begins with Stage2. How often the last network
    is asked may be another number than before: its weights are the same.
    """
    stage = stage_of(0, recipe)
    if start is None:
        return new_model(recipe, stage)
    for name, value in recipe.model.to_dict().items():
        if name not in ("stage", "repeats") and (found := start.config.to_dict()[name]) != value:
            raise GradiconError(
                f"the model to start from has {name} = {found}, but the recipe says "
                f"{value}: they must be the same"
            )
    if start.config.stage > stage:
        raise GradiconError(
            "the model to start from is a Stage2, which has no way back: say stage1_steps = 0"
        )
    if start.config.stage != stage:
        return new_model(recipe, stage, before=start)
    model = build(ModelConfig.from_dict(recipe.model.to_dict() | {"stage": stage}))
    model.load_state_dict(start.state_dict())
    return model


def restored_model(recipe: Recipe, checkpoint: Checkpoint, source: str) -> Model:
    """The network of a checkpoint."""
    model = build(ModelConfig.from_dict(recipe.model.to_dict() | {"stage": checkpoint.stage}))
    load_strictly(model, checkpoint.model, source=source)
    return model


def adam(model: Model, learning_rate: float) -> torch.optim.Adam:
    """The paper's optimizer, in one kernel.

    On a GPU it can be captured in a graph. So its learning rate must be a tensor there: a graph
    replays numbers of the host as they were when it was captured.
    """
    device = next(model.parameters()).device
    rate = torch.tensor(learning_rate, device=device) if device.type == "cuda" else learning_rate
    return torch.optim.Adam(
        model.parameters(), lr=rate, fused=True, capturable=device.type == "cuda"
    )


def restore(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Its moments, from a checkpoint of any device; how it computes stays as it is here."""
    own = [
        {name: group[name] for name in ("lr", "fused", "capturable")}
        for group in optimizer.param_groups
    ]
    optimizer.load_state_dict(state)
    for group, here in zip(optimizer.param_groups, own, strict=True):
        group.update(here)


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Where it lives in a tensor, that keeps its place: captured graphs read it there."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate
