"""One page for a person to judge a registration by: a self-contained HTML document with the images,
the map and the numbers.

The page needs no network and no other file. Each volume is embedded as base64 of gzip of its raw
values in array order, under the id `volume-NAME`, and unpacked by the script of `report.html`.
"""

import base64
import gzip
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor

from gradicon.errors import GradiconError

DISPLACEMENT_STEPS = 64  # per voxel
_INT16_MAX = 32767


@dataclass(frozen=True, eq=False)
class ReportContent:
    """What a person looks at.

    All images lie on one display grid (z, y, x), or (y, x) for a 2-D pair.

    The axes are canonical LPS: z increases to superior, y to posterior, x to the patient's left. A
    2-D pair is drawn with its first row at the top and its sides unnamed. The numbers are (name,
    before, after), either of which may be ""; a table is (caption, header, rows); provenance is
    (name, value); a note is a plain sentence. Any text may stand in them.
    """

    title: str
    fixed: Tensor
    """(*S), in [0, 1]"""
    moving: Tensor
    """(*S), in [0, 1]: the moving image before registration"""
    warped: Tensor
    """(*S), in [0, 1]: the moving image after registration"""
    displacement: Tensor
    """(D, *S), in voxels of this grid and array order: voxel x of fixed goes to x + displacement"""
    jacobian: Tensor
    """(*S): the determinant, 1 where volume does not change"""
    spacing_mm: tuple[float, ...]
    numbers: list[tuple[str, str, str]]
    meanings: list[tuple[str, str]]
    tables: list[tuple[str, list[str], list[list[str]]]]
    provenance: list[tuple[str, str]]
    notes: list[str]

    def __post_init__(self) -> None:
        shape = tuple(self.fixed.shape)
        if len(shape) not in (2, 3) or 0 in shape:
            raise GradiconError(f"fixed must have the shape (y, x) or (z, y, x), got {shape}")
        for name, image in (
            ("moving", self.moving),
            ("warped", self.warped),
            ("jacobian", self.jacobian),
        ):
            if image.shape != self.fixed.shape:
                raise GradiconError(
                    f"{name} must have the shape of fixed, {shape}, got {tuple(image.shape)}"
                )
        if tuple(self.displacement.shape) != (len(shape), *shape):
            raise GradiconError(
                f"displacement must have the shape {(len(shape), *shape)}, got "
                f"{tuple(self.displacement.shape)}"
            )
        if len(self.spacing_mm) != len(shape) or not all(
            0 < step < float("inf") for step in self.spacing_mm
        ):
            raise GradiconError(
                f"spacing_mm must be {len(shape)} positive numbers, got {self.spacing_mm}"
            )
        for caption, header, rows in self.tables:
            if any(len(row) != len(header) for row in rows):
                raise GradiconError(
                    f"tables: every row of {caption!r} must have {len(header)} cells"
                )


def render_report(content: ReportContent) -> str:
    """The report as one HTML document, to be written as UTF-8."""
    parts = {
        "title": _escape(content.title),
        "notes": "".join(f"<p>{_escape(note)}</p>\n" for note in content.notes),
        "numbers": _table("", ["", "before", "after"], [list(row) for row in content.numbers])
        if content.numbers
        else "",
        "meanings": _explain(content.meanings),
        "tables": "\n".join(_table(*table) for table in content.tables),
        "provenance": "".join(
            f"<dt>{_escape(name)}</dt><dd>{_escape(value)}</dd>\n"
            for name, value in content.provenance
        ),
        "grid": json.dumps(
            {"shape": list(content.fixed.shape), "spacing": list(content.spacing_mm)}
        ),
        "volumes": "\n".join(_embed(name, values) for name, values in _volumes(content).items()),
    }
    template = (
        files("gradicon.registration.result").joinpath("report.html").read_text(encoding="utf-8")
    )
    return _fill(template, parts)


def _volumes(content: ReportContent) -> dict[str, np.ndarray]:
    images = {"fixed": content.fixed, "moving": content.moving, "warped": content.warped}
    packed = {name: _quantise_image(image) for name, image in images.items()}
    return {
        **packed,
        "jacobian": _quantise_jacobian(content.jacobian),
        "displacement": _quantise_displacement(content.displacement),
    }


def _quantise_image(image: Tensor) -> np.ndarray:
    """[0, 1] onto 0 .. 255; what is not a number is black."""
    return (_plain(image).nan_to_num(nan=0.0).clamp(0, 1) * 255).round().to(torch.uint8).numpy()


def _quantise_jacobian(determinant: Tensor) -> np.ndarray:
    """(0, 2] onto 1 .. 255, so that 1 is 128 exactly; folds, and what is not a number, are 0."""
    values = _plain(determinant)
    scaled = 1 + (values.nan_to_num(nan=0.0).clamp(0, 2) * 127).round()
    return torch.where(values > 0, scaled, 0).to(torch.uint8).numpy()


def _quantise_displacement(displacement: Tensor) -> np.ndarray:
    """Voxels in steps of 1/64, little-endian, clipped to 511 voxels."""
    steps = (_plain(displacement).nan_to_num(nan=0.0) * DISPLACEMENT_STEPS).round()
    return steps.clamp(-_INT16_MAX, _INT16_MAX).to(torch.int16).numpy().astype("<i2")


def _plain(values: Tensor) -> Tensor:
    return values.detach().to("cpu", torch.float32)


def _embed(name: str, values: np.ndarray) -> str:
    packed = gzip.compress(
        values.tobytes(), compresslevel=6, mtime=0
    )  # no time stamp: the same content gives the same page
    text = base64.b64encode(packed).decode("ascii")
    return f'<script type="text/plain" id="volume-{name}">{text}</script>'


def _explain(meanings: list[tuple[str, str]]) -> str:
    """What each number is, folded away until somebody asks."""
    if not meanings:
        return ""
    terms = "".join(f"<dt>{_escape(n)}</dt><dd>{_escape(text)}</dd>\n" for n, text in meanings)
    return f"<details><summary>What these numbers mean</summary><dl>{terms}</dl></details>"


def _table(caption: str, header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col">{_escape(cell)}</th>' for cell in header)
    body = "\n".join(f"<tr>{_row(row)}</tr>" for row in rows)
    title = f"<caption>{_escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def _row(cells: list[str]) -> str:
    first, *others = cells or [""]
    return f'<th scope="row">{_escape(first)}</th>' + "".join(
        f"<td>{_escape(cell)}</td>" for cell in others
    )


def _escape(text: str) -> str:
    """Text for HTML; names of files that are no valid Unicode keep what can be shown of them."""
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Replace each @@name@@ in one pass, so that what is filled in is never taken for a marker."""
    return re.sub(r"@@(\w+)@@", lambda match: parts[match[1]], template)
