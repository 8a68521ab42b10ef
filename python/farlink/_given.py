"""What callers give, as the engine takes it: values of keys, seeds, and what makes policies."""

from __future__ import annotations

import json
import operator
import os
from typing import Any, Iterable, List, Mapping, SupportsIndex, Tuple, Union

from . import _engine

#: The largest seed of a table, whose column of seeds is one of 64 bits with a sign.
SEED_MAX = 2**63 - 1


def value_text(value: Any) -> str:
    """A value of a key as JSON; numbers and arrays of NumPy, and paths, are what they stand for.

    :raises ConfigError: of what has no place in a scenario.
    """
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except (ValueError, TypeError, RecursionError) as why:
        hint = "give text, numbers, truth values, lists or dictionaries"
        raise _engine.ConfigError(f"no value of a scenario: {value!r}: {why}\nhint: {hint}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    # Scalars and arrays of NumPy, columns of pandas and polars.
    for name in ("tolist", "to_list"):
        if callable(getattr(value, name, None)):
            return getattr(value, name)()
    raise TypeError(f"a {type(value).__name__} is neither text nor a number")


def plain(value: Any) -> Any:
    """A value of an axis: a scalar of NumPy as the number or truth value that it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)) else value


def seed_of(given: Any, largest: int = SEED_MAX) -> int:
    """A seed.

    :raises ConfigError: of what is none.
    """
    try:
        seed = operator.index(given)
    except TypeError:
        seed = -1
    if not 0 <= seed <= largest:
        raise _engine.ConfigError(f"{given!r} is no seed\nhint: give a whole number from 0 to {largest}")
    return seed


def seeds_of(given: Union[int, Iterable[int]]) -> List[int]:
    """So many seeds (1, 2, ...), or those that are given.

    :raises ConfigError: of what is neither.
    """
    if isinstance(given, SupportsIndex):
        return list(range(1, operator.index(given) + 1))
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise _engine.ConfigError(f"seeds: {given!r} says neither how many nor which\nhint: write 5, or [1, 2, 3]")
    return [seed_of(seed) for seed in given]


def count_of(what: str, given: Any, most: int = SEED_MAX) -> Any:
    """How many, from 1; None where nothing was said.

    :raises ConfigError: of what is no such number.
    """
    if given is None:
        return None
    count = operator.index(given) if isinstance(given, SupportsIndex) else 0
    if not 1 <= count <= most:
        raise _engine.ConfigError(f"{what}: {given!r} says not how many\nhint: give a whole number from 1 to {most}")
    return count


def makers(given: Any, of: str) -> List[Tuple[str, Any]]:
    """By the names of nodes and groups, what makes a policy: a router or a control, says ``of``.

    :raises ConfigError: of what makes none.
    """
    if given is None:
        return []
    named = list(given.items()) if isinstance(given, Mapping) else [("*", given)]
    for name, maker in named:
        if not isinstance(name, str):
            raise _engine.ConfigError(f"{of}: {name!r} is no name\nhint: name nodes and groups, or `*` for all")
        if isinstance(maker, str):
            hint = f"one of the engine is a key of the scenario: scenario.set('group[*].{of}', {maker!r})"
            raise _engine.ConfigError(f"{of}: {maker!r} is a text\nhint: {hint}")
        if not callable(maker):
            hint = f"give the class, {type(maker).__name__}, or what makes an object of it: each node has one of its own"
            raise _engine.ConfigError(f"{of}: an object of {type(maker).__name__} makes no others\nhint: {hint}")
    return named
