"""The list of the paper's statements: whole rows, known verdicts, links that lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs/results"
PAGES = [RESULTS / "README.md", RESULTS / "reproduce.md"]
VERDICTS = ("holds", "differs", "not yet", "cannot be had")
TEXT = PAGES[0].read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading that begins so."""
    (section,) = re.findall(rf"^## {heading}.*?$(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


SECTIONS = ("Section 3", "Section 4", "Section 5", "Appendix")
AUDIT = {"The audit: what differed": "A", "The audit: what was": "B", "The audit: sentences": "C"}


@pytest.mark.parametrize("heading", [*SECTIONS, *AUDIT])
def test_each_row_says_what_and_has_a_verdict_with_a_reason(heading: str):
    found = rows(heading)
    assert len(found) >= 8
    for cells in found:
        assert len(cells) == 5, cells
        assert cells[0], cells
        assert cells[1], cells
        verdict, _, reason = cells[-1].partition(":")
        assert verdict in VERDICTS, cells
        if verdict in ("differs", "cannot be had"):
            assert reason, cells
        if verdict == "holds":
            assert cells[2] or cells[3] or reason, cells


@pytest.mark.parametrize(
    ("heading", "count"), list(zip(AUDIT, (21, 11, 8), strict=True)), ids=AUDIT.values()
)
def test_no_line_of_the_audit_is_left_out(heading: str, count: int):
    numbered = [f"{AUDIT[heading]} {number}" for number in range(1, count + 1)]
    assert [cells[0] for cells in rows(heading)] == numbered


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    assert len(links) > 10
    for link in links:
        assert (page.parent / link).exists(), link


def test_tests_and_studies_that_are_named_are_there():
    from gradicon.experiments.study import STUDIES

    for name in re.findall(r"\btests/[\w/]+(?:\.py)?", TEXT):
        assert (ROOT / name).exists(), name
    named = set(re.findall(r"gradicon experiment ([a-z]+)", TEXT))
    assert named == set(STUDIES)
