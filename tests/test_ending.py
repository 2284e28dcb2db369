"""How programs end: whose mistake it was, in one line; a mistake of ours with its traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test_cli import assert_one_line_error, gradicon

PROGRAMS = {
    "gradicon": ("gradicon.cli.models.names", ["models"]),
    "gradicon.training": (
        "gradicon.training.command._train",
        ["r.toml", "--data", "data", "-o", "run"],
    ),
    "gradicon.experiments": (
        "gradicon.experiments.command.choose_device",
        ["noise", "-o", "out"],
    ),
}


def run_with(
    error: str, program: str, folder: Path, *options: str, debug: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program in which one function, somewhere inside, raises `error`."""
    function, arguments = PROGRAMS[program]
    module, _, name = function.rpartition(".")
    planted = "\n".join(
        [
            "import errno, sys",
            f"import {module} as module, {program}.__main__ as program",
            "def planted(*args, **kwargs):",
            f"    raise {error}",
            f"module.{name} = planted",
            f"sys.argv = ['{program}', *{[*options, *arguments]}]",
            "program.main()",
        ]
    )
    return subprocess.run(
        [sys.executable, "-c", planted],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "GRADICON_DEBUG": debug, "TMPDIR": str(folder)},
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_mistake_of_ours_says_so_and_keeps_its_traceback(program: str, tmp_path: Path):
    for count in (1, 2):  # the second one overwrites nothing
        told = run_with("ValueError('planted\\nhere')", program, tmp_path)
        assert told.returncode == 70, told.stderr
        assert told.stderr.count("\n") == 1
        assert told.stderr.startswith("gradicon: this is a mistake of gradicon, not yours: ")
        assert "ValueError: planted here; the traceback is in " in told.stderr
        kept = list(tmp_path.glob("gradicon-mistake-*.txt"))
        assert len(kept) == count
    named = Path(told.stderr.rpartition(" is in ")[2].strip())
    assert named in kept
    text = named.read_text()
    assert f"command: {program}" in text
    assert "Traceback (most recent call last)" in text
    assert "in planted" in text


@pytest.mark.parametrize("program", PROGRAMS)
def test_debug_shows_the_traceback_instead(program: str, tmp_path: Path):
    for told in (
        run_with("KeyError('planted')", program, tmp_path, "--debug"),
        run_with("KeyError('planted')", program, tmp_path, debug="1"),
    ):
        assert told.returncode == 70
        assert "Traceback (most recent call last)" in told.stderr
        assert "in planted" in told.stderr
        assert not list(tmp_path.glob("gradicon*"))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("OSError(errno.ENOSPC, 'No space left on device', 'some/file')", "some/file: No space"),
        ("PermissionError(errno.EACCES, 'Permission denied')", "Permission denied"),
        ("MemoryError()", "out of memory: take a smaller image"),
        ('RuntimeError("DefaultCPUAllocator: can\'t allocate memory")', "out of memory"),
    ],
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_nobodys_mistake_is_one_line(program: str, error: str, line: str, tmp_path: Path):
    told = run_with(error, program, tmp_path)
    assert_one_line_error(told, line)
    assert not list(tmp_path.glob("gradicon*"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_ctrl_c_is_quiet(program: str, tmp_path: Path):
    told = run_with("KeyboardInterrupt", program, tmp_path)
    assert (told.returncode, told.stderr.strip()) == (130, "")


def test_a_study_on_a_gpu_that_is_not_there_is_refused(tmp_path: Path):
    arguments = ["noise", "--quick", "--device", "cuda", "-o", tmp_path / "out"]
    for told in (
        gradicon("experiment", *arguments),
        subprocess.run(
            [sys.executable, "-m", "gradicon.experiments", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        ),
    ):
        assert_one_line_error(told, "device cuda: torch finds no GPU here; leave it at auto")
    assert not (tmp_path / "out").exists()
