"""What a run says while it runs: JSON lines, TensorBoard if installed, and whoever listens."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from gradicon.errors import UnwritableError
from gradicon.files import written_whole
from gradicon.training.state import METRICS, TENSORBOARD

_LOGGER = logging.getLogger("gradicon.training")


@dataclass(frozen=True)
class Report:
    """Where a run is.

    `values` are the loss and its parts, folds in percent, the magnitude of the map, and on some
    steps what validation found.
    """

    stage: int
    step: int
    steps: int
    steps_per_second: float
    values: Mapping[str, float]


OnLog = Callable[[Report], None]


class RunLog:
    """Writes what it is told.

    Times are no part of metrics.jsonl, so that a resumed run leaves the same file as one that never
    stopped.
    """

    def __init__(self, run: Path, *, after: int, on_log: OnLog | None = None) -> None:
        self._on_log = on_log
        _forget_after(run / METRICS, after)
        self._lines = (run / METRICS).open("a", encoding="utf-8")
        self._board = _tensorboard(run / TENSORBOARD, after)

    def scalars(self, report: Report) -> None:
        """One line, one point of each curve, one call of whoever listens."""
        line = {"step": report.step, "stage": report.stage, **report.values}
        try:
            self._lines.write(json.dumps(line) + "\n")
            self._lines.flush()
        except OSError as error:
            raise UnwritableError(
                f"{self._lines.name}: could not be written ({error.strerror}): make room, "
                "then --resume"
            ) from error
        if self._board is not None:
            for name, value in report.values.items():
                self._board.add_scalar(name, value, report.step)
        if self._on_log is not None:
            self._on_log(report)

    def pictures(self, step: int, images: Mapping[str, Tensor]) -> None:
        """Slices (H, W) in [0,1], for TensorBoard."""
        if self._board is not None:
            for name, image in images.items():
                self._board.add_image(name, image.clamp(0, 1).cpu(), step, dataformats="HW")

    def close(self) -> None:
        """Nothing more to say."""
        self._lines.close()
        if self._board is not None:
            self._board.close()


def _forget_after(path: Path, step: int) -> None:
    """Drop the lines that a run wrote after its last checkpoint: it will write them again.

    A line without its end was being written when the process died, so it is the last one.
    """
    if not path.exists():
        return
    kept: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n") or json.loads(line)["step"] > step:
            break
        kept.append(line)
    with written_whole(path, advice="make room first") as part:
        part.write_bytes("".join(kept).encode())


def _tensorboard(folder: Path, after: int) -> Any:  # noqa: ANN401 (it may not be installed)
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        _LOGGER.warning("tensorboard is not installed: curves are in %s only", METRICS)
        return None
    return SummaryWriter(str(folder), purge_step=after + 1)
