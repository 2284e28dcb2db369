"""Values from TOML and JSON files, as the annotations of a dataclass want them, and no others."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from gradicon.errors import GradiconError

Section = TypeVar("Section")


def read_section(
    kind: type[Section], values: Mapping[str, Any], name: str, *, complete: bool = False
) -> Section:
    """A dataclass from the values of a section; a slip of the pen is an error, never a default.

    Args:
        kind: the dataclass. Its own checks run as well.
        values: by the names of its fields.
        name: of the section, for messages.
        complete: whether every field must be there.
    """
    types = get_type_hints(kind)
    for key in values:
        if key not in types:
            raise GradiconError(
                f"[{name}] unknown name {key!r}: expected some of {', '.join(types)}"
            )
    for key in types if complete else ():
        if key not in values:
            raise GradiconError(f"[{name}] {key} is missing")
    given = {key: _read_value(types[key], v, f"[{name}] {key}") for key, v in values.items()}
    try:
        return kind(**given)
    except GradiconError as error:
        raise GradiconError(f"[{name}] {error}") from error


def _read_value(kind: Any, value: object, where: str) -> object:  # noqa: ANN401 (an annotation)
    """The value as its annotation wants it.

    Lists become tuples, whole numbers may stand for numbers, and no more.
    """
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            allowed = ", ".join(map(str, get_args(kind)))
            raise GradiconError(f"{where} must be one of {allowed}, got {value!r}")
        return value
    if get_origin(kind) is tuple:
        return _read_tuple(get_args(kind), value, where)
    if isinstance(kind, UnionType):
        return _read_union(get_args(kind), value, where)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        raise GradiconError(f"{where} must be {words[kind]}, got {value!r}")
    return value


def _read_tuple(kinds: tuple[Any, ...], value: object, where: str) -> object:
    if not isinstance(value, list):
        raise GradiconError(f"{where} must be a list, got {value!r}")
    if kinds[-1] is not Ellipsis and len(value) != len(kinds):
        raise GradiconError(f"{where} must be a list of {len(kinds)}, got {value!r}")
    return tuple(_read_value(kinds[0], item, where) for item in value)


def _read_union(kinds: tuple[Any, ...], value: object, where: str) -> object:
    if value is None and NoneType in kinds:
        return None
    options = [kind for kind in kinds if kind is not NoneType]
    chosen = [k for k in options if (get_origin(k) is tuple) == isinstance(value, list)]
    return _read_value((chosen or options)[0], value, where)
