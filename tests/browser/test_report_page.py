"""The report in a real browser: headless Chromium, driven by selenium. Run with `-m browser`."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gradicon.registration.result.report import ReportContent, render_report

pytestmark = pytest.mark.browser

SHAPE = (12, 16, 14)
SPACING_MM = (3.0, 1.0, 1.5)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1366,900",
]
VIEWS = [
    "blend",
    "fixed",
    "moving",
    "warped",
    "checkerboard",
    "difference-before",
    "difference-after",
    "grid",
    "jacobian",
]
ARROW_RIGHT = "\ue014"
HOME = "\ue011"
END = "\ue010"
BRIGHT = "r > 128"
LINES = "r > 150 && b < 100"
BOUNDS = """
const [canvas, test] = [document.getElementById(arguments[0]), new Function("r", "g", "b", "return " + arguments[1])];
const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
for (let k = 0; k < width * height; k++) {
  if (!test(data[4 * k], data[4 * k + 1], data[4 * k + 2])) continue;
  const [x, y] = [k % width / width, Math.floor(k / width) / height];
  [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
}
return [left, right, top, bottom];
"""
PICTURE = """
const canvas = document.getElementById(arguments[0]);
const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
const found = [];
for (let y = 0; y < height; y += 5) {
  for (let x = 0; x < width; x += 5) found.push(...data.slice(4 * (y * width + x), 4 * (y * width + x + 1)));
}
return found;
"""
Open = Callable[[ReportContent], "Page"]


def content(shape: tuple[int, ...] = SHAPE) -> ReportContent:
    random = torch.Generator().manual_seed(len(shape))
    fixed, moving, warped = torch.rand(3, *shape, generator=random)
    return ReportContent(
        title="<b>moving</b> onto fixed",
        fixed=fixed,
        moving=moving,
        warped=warped,
        displacement=torch.randn(len(shape), *shape, generator=random) / 4,
        jacobian=torch.rand(shape, generator=random) * 2.2 - 0.1,
        spacing_mm=SPACING_MM[-len(shape) :],
        numbers=[("Dice", "0.5", "0.8")],
        meanings=[("Dice", "overlap of labels; higher is better")],
        tables=[("Dice by label", ["label", "after"], [["caudate", "0.7"]])],
        provenance=[("command", "gradicon register")],
        notes=["A note."],
    )


class Page:
    """A report that is open in the browser."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401  (selenium may be missing where types are read)
        self.driver = driver

    def script(self, text: str, *arguments: object) -> Any:  # noqa: ANN401
        return self.driver.execute_script(text, *arguments)

    def ready(self) -> bool:
        return self.script("return document.body.dataset.ready") == "true"

    def wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, self.driver.get_log("browser")
            time.sleep(0.02)

    def picture(self, plane: int) -> Tensor:
        """Every fifth pixel of every fifth row: red, green, blue and opacity, 0 to 255."""
        return torch.tensor(self.script(PICTURE, f"plane-{plane}"), dtype=torch.float32)

    def press(self, identifier: str, keys: str) -> None:
        self.driver.find_element("id", identifier).send_keys(keys)

    def slide(self, identifier: str, value: int) -> None:
        move = (
            "const e = document.getElementById(arguments[0]); e.value = arguments[1]; "
            "e.dispatchEvent(new Event('input'))"
        )
        self.script(move, identifier, value)

    def choose(self, view: str) -> None:
        self.driver.find_element(
            "xpath", f"//fieldset[@id='view']/label[input/@value='{view}']"
        ).click()

    def bounds(self, plane: int, condition: str) -> list[float]:
        """Left, right, top and bottom of the pixels that meet the condition, as parts of the
        picture.
        """
        return self.script(BOUNDS, f"plane-{plane}", condition)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver  # only these tests need it

    browser = shutil.which("chromium")
    service = shutil.which("chromedriver")
    assert browser, "these tests need chromium"
    assert service, "these tests need chromedriver"
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    yield driver
    driver.quit()


@pytest.fixture
def load(driver: Any, tmp_path: Path) -> Open:  # noqa: ANN401
    def open_report(given: ReportContent) -> Page:
        (tmp_path / "report.html").write_text(render_report(given), encoding="utf-8")
        driver.get((tmp_path / "report.html").as_uri())
        return Page(driver)

    return open_report


@pytest.fixture
def show(load: Open) -> Open:
    def open_and_wait(given: ReportContent) -> Page:
        page = load(given)
        page.wait(page.ready)
        return page

    return open_and_wait


def distance(first: Tensor, second: Tensor) -> float:
    """The mean difference of two pictures, in grey values."""
    return (first - second).abs().mean().item()


def box(z: slice, y: slice, x: slice) -> Tensor:
    image = torch.zeros(SHAPE)
    image[z, y, x] = 1
    return image


@pytest.mark.parametrize("shape", [SHAPE, SHAPE[1:]])
def test_every_view_is_drawn_without_a_complaint_or_a_request(show: Open, shape: tuple[int, ...]):
    page = show(content(shape))
    for view in VIEWS:
        page.choose(view)
    assert page.driver.get_log("browser") == []
    assert page.script("return performance.getEntriesByType('resource').length") == 0
    assert page.script("return document.getElementById('message').hidden")


def test_the_title_is_shown_as_text(show: Open):
    page = show(content())
    assert page.driver.title == "Registration: <b>moving</b> onto fixed"
    assert page.driver.find_element("tag name", "h1").text == "<b>moving</b> onto fixed"
    assert page.script("return document.documentElement.lang") == "en"


@pytest.mark.parametrize("plane", [0, 1, 2])
def test_a_slider_moves_its_own_plane(show: Open, plane: int):
    page = show(content())
    before = [page.picture(n) for n in range(3)]
    page.press(f"slice-{plane}", ARROW_RIGHT)
    after = [page.picture(n) for n in range(3)]
    changes = [distance(a, b) for a, b in zip(after, before, strict=True)]
    assert changes.pop(plane) > 10
    assert changes == [0, 0]


def test_the_blend_runs_from_fixed_to_warped(show: Open):
    page = show(content())
    half = page.picture(0)
    page.press("blend", HOME)
    start = page.picture(0)
    page.press("blend", END)
    end = page.picture(0)
    page.choose("fixed")
    assert distance(page.picture(0), start) < 0.1
    page.choose("warped")
    assert distance(page.picture(0), end) < 0.1
    assert distance(half, (start + end) / 2) < 2
    assert distance(start, end) > 10


def test_every_view_differs_from_every_other(show: Open):
    page = show(content())
    assert (
        page.script(
            "return [...document.querySelectorAll('#view input')].map((each) => each.value)"
        )
        == VIEWS
    )
    for plane in range(3):
        pictures = []
        for view in VIEWS:
            page.choose(view)
            pictures.append(page.picture(plane))
        assert min(distance(*pair) for pair in combinations(pictures, 2)) > 5


@pytest.mark.parametrize(("shape", "planes"), [(SHAPE, 3), (SHAPE[1:], 1)])
def test_a_plane_for_each_pair_of_axes(show: Open, shape: tuple[int, ...], planes: int):
    page = show(content(shape))
    assert len(page.driver.find_elements("css selector", "canvas")) == planes
    sliders = page.driver.find_elements("css selector", "#planes input[type=range]")
    assert sum(slider.is_displayed() for slider in sliders) == (3 if planes == 3 else 0)


def test_the_pictures_have_the_proportions_of_the_body(show: Open):
    page = show(content())
    z, y, x = (n * step for n, step in zip(SHAPE, SPACING_MM, strict=True))
    sizes = """const canvas = document.getElementById(arguments[0]), shown = canvas.getBoundingClientRect();
        return [canvas.width / canvas.height, shown.width / shown.height]"""
    for plane, ratio in enumerate((x / y, x / z, y / z)):
        assert page.script(sizes, f"plane-{plane}") == pytest.approx([ratio, ratio], rel=0.01)


def test_the_patient_lies_as_radiologists_expect(show: Open):
    """A marker that is right, anterior and superior: on the left, and up."""
    marker = box(z=slice(8, 11), y=slice(2, 6), x=slice(1, 5))
    page = show(replace(content(), fixed=marker))
    page.choose("fixed")
    for axis, slice_index in enumerate((9, 4, 3)):
        page.slide(f"slice-{axis}", slice_index)
    for plane in range(3):
        left, right, top, bottom = page.bounds(plane, BRIGHT)
        assert 0 < left < right < 0.5
        assert 0 < top < bottom < 0.5
    sides = (
        "return [...document.querySelectorAll(`#planes .${arguments[0]}`)].map((each) => "
        "each.textContent).join('')"
    )
    assert [page.script(sides, side) for side in ("left", "right", "top", "bottom")] == [
        "RRA",
        "LLP",
        "ASS",
        "PII",
    ]


def test_the_lines_of_the_grid_move_with_the_displacement(show: Open):
    """Two voxels to inferior, one to posterior, three to the patient's left."""
    shift = torch.tensor([-2.0, 1.0, 3.0]).reshape(3, 1, 1, 1).expand(3, *SHAPE)
    start = []
    moved = []
    for displacement, found in ((torch.zeros(3, *SHAPE), start), (shift, moved)):
        page = show(replace(content(), displacement=displacement))
        page.choose("grid")
        found += [page.bounds(plane, LINES) for plane in range(3)]
    expected = [(3 / 14, 1 / 16), (3 / 14, 2 / 12), (1 / 16, 2 / 12)]
    for before, after, (right, down) in zip(start, moved, expected, strict=True):
        assert (after[0] - before[0], after[2] - before[2]) == pytest.approx(
            (right, down), abs=0.005
        )


@pytest.mark.parametrize(
    ("determinant", "condition"),
    [
        (0.4, "b > r + 50"),
        (1.6, "r > b + 50"),
        (1.0, "r == g && g == b && r > 240"),
        (0.0, "r == 255 && g == 0 && b == 255"),
    ],
)
def test_the_determinant_is_blue_below_one_red_above_and_magenta_where_it_folds(
    show: Open, determinant: float, condition: str
):
    page = show(replace(content(), jacobian=torch.full(SHAPE, determinant)))
    page.choose("jacobian")
    assert (
        page.bounds(0, f"!({condition})")[0] is None
    )  # no pixel: Infinity, which JSON does not know
    assert page.driver.find_element("id", "scale").is_displayed()


def test_a_browser_that_cannot_unpack_says_so(driver: Any, load: Open):  # noqa: ANN401
    script = driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream"}
    )
    page = load(content())
    driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    assert "DecompressionStream" in page.driver.find_element("id", "message").text
    assert not page.ready()
