"""How threads wait and how many there are: set by the command line, and by nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradicon.threads import usable_cpus

COMMAND_LINES = ("gradicon", "gradicon.training", "gradicon.experiments")
LOOK = "import json, os, sys; print(json.dumps([dict(os.environ), 'torch' in sys.modules]))"


def look_after(code: str, **environment: str) -> tuple[dict[str, str], bool]:
    """The environment, and whether torch is imported, after some code in a new Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LOOK}"],
        capture_output=True,
        text=True,
        check=True,
        env={**kept, **environment},
    )
    after, has_torch = json.loads(told.stdout)
    return after, has_torch


def test_importing_the_package_changes_nothing():
    before, _ = look_after("")
    assert look_after("import gradicon") == (before, False)
    assert look_after("from gradicon import register") == (before, True)


@pytest.mark.parametrize("program", COMMAND_LINES)
def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(program: str):
    start = (
        f"import {program}.__main__ as program, sys\n"
        "def look(run): assert 'torch' not in sys.modules\n"
        "program.run_program = look\n"
        "program.main()"
    )
    assert look_after(start)[0]["OMP_WAIT_POLICY"] == "PASSIVE"
    assert look_after(start, OMP_WAIT_POLICY="ACTIVE")[0]["OMP_WAIT_POLICY"] == "ACTIVE"


def limits(folder: Path, groups: dict[str, str]) -> Path:
    for name, text in groups.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("process", "groups", "cpus"),
    [
        ("0::/job/step", {"job/cpu.max": "200000 100000\n"}, 2),
        ("0::/job/step", {"job/cpu.max": "max 100000\n"}, 8),
        ("0::/job", {"job/cpu.max": "300000 100000\n", "cpu.max": "150000 100000\n"}, 2),
        ("0::/of/the/host", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/job", {"unified/job/cpu.max": "300000 100000\n"}, 3),
        ("0::/job", {"job/cpu.max": "1600000 100000\n"}, 8),
        ("0::/job", {"job/cpu.max": "nonsense\n"}, 8),
        (
            "3:cpu,cpuacct:/job",
            {"cpu/job/cpu.cfs_quota_us": "400000\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
            4,
        ),
        (
            "3:cpu,cpuacct:/job",
            {"cpu/job/cpu.cfs_quota_us": "-1\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
            8,
        ),
        ("3:memory:/job", {"cpu/job/cpu.max": "100000 100000\n"}, 8),
    ],
)
def test_a_share_of_cpu_time_bounds_the_threads(
    process: str,
    groups: dict[str, str],
    cpus: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "process").write_text(f"{process}\n")
    assert usable_cpus(tmp_path / "process", limits(tmp_path / "groups", groups)) == cpus


def test_without_control_groups_the_cpus_it_may_run_on_count(tmp_path: Path):
    code = (
        "import os; from gradicon.threads import bound_threads; import torch\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "torch.set_num_threads(4)\n"
        "bound_threads()\n"
        "assert torch.get_num_threads() == {expected}"
    )
    look_after(code.replace("{expected}", "1"))
    look_after(code.replace("{expected}", "4"), OMP_NUM_THREADS="4")
