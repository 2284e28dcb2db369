"""Which labels count in a table, and what they are called: a TOML file with a section [labels]."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from gradicon.errors import GradiconError, MissingFileError

Names = Mapping[int, str]
"""Of the labels that count, by value."""

_EACH = ("dice", "dice_before", "hd95_mm")
_MEANS = {
    "mean_dice": "dice",
    "mean_dice_before": "dice_before",
    "mean_hd95_mm": "hd95_mm",
}


def read_names(path: Path) -> dict[int, str]:
    """The labels of a file, such as `17 = "Left Hippocampus"`; no two may have one name."""
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file of labels")
    try:
        labels = tomllib.loads(path.read_bytes().decode()).get("labels")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GradiconError(f"{path}: not a TOML file: {error}") from error
    if not isinstance(labels, dict) or not labels:
        raise GradiconError(f'{path}: expected a section [labels] with lines such as 1 = "name"')
    names: dict[int, str] = {}
    for value, name in labels.items():
        if not value.lstrip("-").isdecimal() or not isinstance(name, str):
            raise GradiconError(
                f'{path}: expected lines such as 1 = "name", got {value} = {name!r}'
            )
        if name in names.values():
            raise GradiconError(f"{path}: two labels are called {name}")
        names[int(value)] = name
    return names


def only(measures: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """The measures of a pair with those of the labels that count, by name, and their means anew.

    A label that neither image has is not in them, and does not count. A pair without any of the
    labels has no measure of labels.
    """
    kept = dict(measures)
    for measure in _EACH:
        if measure in kept:
            values = {int(label): value for label, value in kept.pop(measure).items()}
            here = {name: values[label] for label, name in names.items() if label in values}
            kept |= {measure: here} if here else {}
    for average, measure in _MEANS.items():
        kept.pop(average, None)
        if measure in kept:
            kept[average] = mean(kept[measure].values())
    if kept.pop("lost_labels", None) is not None and "dice" in kept:
        kept["lost_labels"] = len(kept["dice"]) - len(kept.get("hd95_mm", {}))
    return kept
