"""Run a study and write what it found: one JSON with all numbers, a table, a figure."""

import json
import platform
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch

import gradicon
from gradicon.errors import GradiconError, MissingFileError
from gradicon.experiments.study import Setting, load_study


def run_study(name: str, setting: Setting, out: Path, *, command: str) -> Path:
    """Run a study, and write OUT/NAME.json, NAME.md and, where matplotlib is installed, NAME.png.

    Until all is done, OUT/NAME-SIZE.trained holds the trainings that are: after an interruption the
    same command goes on from them.

    Args:
        name: of the study.
        setting: how to run it.
        out: the folder for the results.
        command: what the results say they were made by.

    Returns:
        The JSON's path.
    """
    chosen = load_study(name)
    began = time.monotonic()
    kept = out / f"{name}-{'quick' if setting.quick else 'full'}.trained"
    made = [folder for folder in (kept, out) if not folder.exists()]
    kept.mkdir(parents=True, exist_ok=True)
    try:
        numbers = chosen.run(replace(setting, kept=kept))
    except BaseException as error:
        with suppress(OSError):  # one that is not empty stays
            for folder in made:
                folder.rmdir()
        if isinstance(error, torch.OutOfMemoryError):
            advice = "use fewer --jobs; what is trained is kept, the same command goes on from it"
            raise GradiconError(f"the GPU's memory is full: {advice}") from error
        raise
    result = {
        "experiment": name,
        "size": "quick" if setting.quick else "full",
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": _describe_hardware(setting.device),
        "gradicon": gradicon.__version__,
        "torch": torch.__version__,
        "minutes": round((time.monotonic() - began) / 60, 2),
        "numbers": numbers,
    }
    path = out / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    show_study(path, out)
    rmtree(kept)
    return path


def show_study(source: Path, out: Path) -> list[Path]:
    """Write the table and the figure of a result, from its JSON alone."""
    result = _read_result(source)
    name = result["experiment"]
    chosen = load_study(result["experiment"])
    out.mkdir(parents=True, exist_ok=True)
    origin = (
        f"{result['command']}, {result['date']}, {result['hardware']}, {result['minutes']} minutes"
    )
    table = out / f"{name}.md"
    table.write_text(
        f"# {chosen.TITLE}\n\n{chosen.table(result['numbers'])}\n\n`{origin}`\n", encoding="utf-8"
    )
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return [table]
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    chosen.draw(result["numbers"], figure)
    figure.savefig(out / f"{name}.png", dpi=130)
    return [table, out / f"{name}.png"]


def _read_result(source: Path) -> dict[str, Any]:
    if not source.is_file():
        raise MissingFileError(f"{source}: no such result")
    try:
        result = json.loads(source.read_text(encoding="utf-8"))
        load_study(result["experiment"])
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise GradiconError(f"{source}: not the result of an experiment") from error
    return result


def _describe_hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return f"one {torch.cuda.get_device_name(device)}"
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
