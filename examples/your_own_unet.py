"""Your own U-Net, trained with GradICON in a plain PyTorch loop."""

import torch
from torch import Tensor, nn

from gradicon import DisplacementField, fold_percentage, gradient_inconsistency, unit_grid, warp


class MyUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Conv2d(2, 16, 3, stride=2, padding=1)
        self.out = nn.Conv2d(48, 2, 3, padding=1)
        self.coarse = nn.Sequential(
            nn.Conv2d(16, 32, 5, stride=4, padding=2), nn.ReLU(), nn.Conv2d(32, 32, 5, padding=2)
        )

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        fine = self.fine(torch.cat([a, b], 1)).relu()
        coarse = nn.functional.interpolate(self.coarse(fine), scale_factor=4, mode="bilinear")
        return 0.1 * nn.functional.interpolate(
            self.out(torch.cat([fine, coarse], 1)), scale_factor=2, mode="bilinear"
        )


def discs(count: int, size: int = 48) -> Tensor:
    centre = 0.35 + 0.3 * torch.rand(count, 2, 1, 1)
    radius = 0.15 + 0.15 * torch.rand(count, 1, 1)
    return torch.sigmoid(
        40 * (radius - (unit_grid((size, size), like=centre) - centre).norm(dim=1))
    )[:, None]


def train(net: nn.Module, steps: int = 400) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(steps):
        # x: where the penalty is measured
        a = discs(8)
        b = discs(8)
        x = torch.rand(8, 2, 500)
        phi_ab = DisplacementField(net(a, b))
        phi_ba = DisplacementField(net(b, a))
        similarity = ((warp(a, phi_ab) - b) ** 2).mean() + ((warp(b, phi_ba) - a) ** 2).mean()
        optimizer.zero_grad()
        (similarity + 0.2 * gradient_inconsistency(phi_ab, phi_ba, x)).backward()
        optimizer.step()
        if step % 50 == 0 or step == steps - 1:
            print(
                f"step {step:4d}  similarity {similarity:.4f}  folds "
                f"{fold_percentage(phi_ab, (48, 48)).mean():.3f} %"
            )


if __name__ == "__main__":
    train(MyUNet())
