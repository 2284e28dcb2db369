"""What the core may ask for, by name. A function answers None where the plain code does as well."""

from collections.abc import Callable

from torch import Tensor

from gradicon.core.acceleration import Operation
from gradicon.fast.dense import dense
from gradicon.fast.sampling import displace, sample

OPERATIONS: dict[Operation, Callable[..., Tensor | None]] = {
    "sample": sample,
    "displace": displace,
    "dense": dense,
}
