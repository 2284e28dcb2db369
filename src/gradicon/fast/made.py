"""What is made of a weight, such as its copy in half precision, made once while it holds still."""

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor

from gradicon.core.acceleration import made_of_weights

Made = TypeVar("Made")


def once(weight: Tensor, what: str, make: Callable[[], Made]) -> Made:
    """What `make` makes of a weight; in a `weights_held_still` block, what it made before."""
    made = made_of_weights()
    if made is None:
        return make()
    key = id(weight), what
    if key not in made:
        made[key] = make()
    return made[key]
