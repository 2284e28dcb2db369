"""The network and optimizer of a stage, fresh or as a checkpoint left them."""

import torch

from gradicon.core.network import Displace
from gradicon.core.unet import UNet, use_half_precision
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
    """A stage's network. Stage2 = TS{Stage1, Psi4} keeps the weights of `before`; what is new depends on the seed alone."""
    config = ModelConfig.from_dict(recipe.model.to_dict() | {"stage": stage})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(recipe.training.seed, "weights", stage).initial_seed())
        model = build(config)
    if before is not None:
        model.net.get_submodule("first").load_state_dict(before.net.state_dict())
    return model


def restored_model(recipe: Recipe, checkpoint: Checkpoint, source: str) -> Model:
    """The network of a checkpoint."""
    model = build(ModelConfig.from_dict(recipe.model.to_dict() | {"stage": checkpoint.stage}))
    load_strictly(model, checkpoint.model, source=source)
    return model


def adam(model: Model, learning_rate: float) -> torch.optim.Adam:
    """The paper's optimizer, in one kernel; on a GPU, ready to be captured in a graph."""
    on_gpu = next(model.parameters()).is_cuda
    return torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True, capturable=on_gpu)


def use_bfloat16(model: Model, device: torch.device) -> None:
    """Run the dense networks in bfloat16; coordinates, interpolation and losses stay in float32."""
    use_half_precision(model)
    for module in model.modules():
        if isinstance(module, Displace) and not (isinstance(module.dense, UNet) and device.type == "cuda"):
            module.dense.forward = torch.autocast(device.type, torch.bfloat16)(module.dense.forward)
