"""Your own U-Net, trained with GradICON in a plain PyTorch loop."""

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from gradicon import DisplacementField, fold_percentage, gradient_inconsistency, unit_grid, warp


class MyUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Conv2d(2, 16, 3, stride=2, padding=1)
        self.coarse = nn.Sequential(
            nn.Conv2d(16, 32, 5, 4, 2), nn.ReLU(), nn.Conv2d(32, 32, 5, 1, 2)
        )
        self.out = nn.Conv2d(48, 2, 3, padding=1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        fine = self.fine(torch.cat([a, b], 1)).relu()
        coarse = interpolate(self.coarse(fine), scale_factor=4, mode="bilinear")
        u = self.out(torch.cat([fine, coarse], 1))
        return 0.1 * interpolate(u, scale_factor=2, mode="bilinear")


def discs(count: int, size: int = 48) -> Tensor:
    centre = 0.35 + 0.3 * torch.rand(count, 2, 1, 1)
    away = (unit_grid((size, size), like=centre) - centre).norm(dim=1, keepdim=True)
    return torch.sigmoid(40 * (0.15 + 0.15 * torch.rand(count, 1, 1, 1) - away))


def train(net: nn.Module, steps: int = 400) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(steps + 1):
        a, b, x = discs(8), discs(8), torch.rand(8, 2, 500)  # x: where the penalty is measured
        ab, ba = DisplacementField(net(a, b)), DisplacementField(net(b, a))
        similarity = ((warp(a, ab) - b) ** 2).mean() + ((warp(b, ba) - a) ** 2).mean()
        optimizer.zero_grad()
        (similarity + 0.2 * gradient_inconsistency(ab, ba, x)).backward()
        optimizer.step()
        if step % 50 == 0:
            folds = fold_percentage(ab, (48, 48)).mean()
            print(f"step {step:4d}  similarity {similarity:.4f}  folds {folds:.3f} %")


if __name__ == "__main__":
    train(MyUNet())
