"""Whether what was done of a pair still counts: the one key that says so."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gradicon.cohort.contents import Contents, Stamp
from gradicon.models import read_header
from gradicon.models.zoo import DEFAULT, find
from gradicon.physical.lists import Pair
from gradicon.registration.options import AUTO, NONE, Options
from gradicon.registration.presets import ALGORITHM

_ANYWHERE = "device"  # the option that does not matter: the same is computed wherever it is


@dataclass(frozen=True)
class How:
    """All but the files that a pair's result depends on.

    Args:
        work: what is done with each pair, with a number that changes when its records do.
        options: those of the registration.
        model: the hash of the model, None without one.
        algorithm: the number of the algorithm.
    """

    work: str
    options: Mapping[str, Any]
    model: str | None
    algorithm: int


@dataclass(frozen=True)
class Key:
    """How a pair was registered, and of which files: stamps by the name of their column."""

    how: How
    files: Mapping[str, tuple[Stamp, ...]]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a record."""
        files = {
            name: [[s.path, s.size, s.mtime_ns, s.sha256] for s in stamps]
            for name, stamps in self.files.items()
        }
        return {**asdict(self.how), "files": files}


def how_of(work: str, options: Options) -> How:
    """How pairs are registered with these options, now."""
    model = None
    if options.model != NONE:
        model = read_header(find(DEFAULT if options.model == AUTO else options.model)).sha256
    return How(work, json.loads(json.dumps(options.as_dict())), model, ALGORITHM)


def key_of(pair: Pair, how: How, contents: Contents) -> Key:
    """The key of a pair as its files are now."""
    return Key(how, {name: contents.stamps(path) for name, path in pair.files.items()})


def parse_key(values: Mapping[str, Any]) -> Key:
    """The inverse of `Key.as_dict`. What is no key raises KeyError, TypeError or ValueError."""
    how = How(values["work"], dict(values["options"]), values["model"], values["algorithm"])
    files = values["files"].items()
    return Key(how, {name: tuple(Stamp(*stamp) for stamp in stamps) for name, stamps in files})


def changed_option(before: How, now: How) -> tuple[str, Any] | None:
    """The first option that is another now, and its former value; None if none is.

    An option that is not recorded had its default. A model of another name is the same if it has
    the same content.
    """
    defaults = Options().as_dict()
    for name, value in now.options.items():
        former = before.options.get(name, defaults.get(name))
        if name == _ANYWHERE or former == value:
            continue
        named = not {former, value} & {AUTO, NONE}
        if name == "model" and named and before.model == now.model:
            continue
        return name, former
    return None


def why_anew(before: Key, now: Key) -> str:
    """Why a pair must be done again, in a word or two; empty if what was done still counts."""
    if before.how.work != now.how.work or before.how.algorithm != now.how.algorithm:
        return "algorithm changed"
    if before.how.model != now.how.model:
        return "model changed"
    if _hashes(before) != _hashes(now):
        return "files changed"
    return ""


def _hashes(key: Key) -> dict[str, list[str]]:
    return {name: [stamp.sha256 for stamp in stamps] for name, stamps in key.files.items()}
