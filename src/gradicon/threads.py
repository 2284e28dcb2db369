"""How many threads a program of ours takes, and how they wait.

For the command lines only: importing gradicon changes nothing of this in somebody's program.
"""

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path

_PROC = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")


def wait_passively() -> None:
    """Let OpenMP's threads sleep while they wait, unless the user has said how they shall wait.

    By default they spin. Two programs that spin on the same cores take many times as long as one
    after the other. OpenMP reads this once, when torch is imported: later it changes nothing.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def bound_threads() -> None:
    """Let torch take no more threads than there are CPUs for this process, unless the user has said
    how many it shall take.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return
    import torch

    allowed = usable_cpus()
    if torch.get_num_threads() > allowed:
        torch.set_num_threads(allowed)


def usable_cpus(process: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """The CPUs that this process may use: those that it may run on, or fewer where a container or
    a cluster's scheduler gives it a share of their time. A part of a CPU counts as one.
    """
    cpus = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    )
    shares = [ceil(share) for share in _cpu_shares(process, cgroups)]
    return max(1, min([cpus, *shares]))


def _cpu_shares(process: Path, cgroups: Path) -> Iterator[float]:
    """How many CPUs' worth of time each control group above this process has, where it is limited.

    A line of /proc/self/cgroup is `number:controllers:/path`; version 2 names no controllers.
    Inside a container the path may be one of the host's: the group is then mounted at the top.
    """
    try:
        lines = process.read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mounts = [cgroups, cgroups / "unified"]
        elif "cpu" in controllers.split(","):
            mounts = [cgroups / "cpu", cgroups / controllers]
        else:
            continue
        for mount in mounts:
            group = mount / path.lstrip("/")
            for folder in (group, *group.parents):
                if folder.is_relative_to(mount):
                    yield from _cpu_share(folder)


def _cpu_share(folder: Path) -> Iterator[float]:
    try:
        if (folder / "cpu.max").is_file():  # version 2: "max 100000" or "150000 100000"
            quota, period = (folder / "cpu.max").read_text().split()
        else:  # version 1, where -1 is no limit
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        if quota != "max" and int(quota) > 0:
            yield int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such limit here
        return
