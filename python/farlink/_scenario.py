"""Scenarios: read from a file, from text, or built table by table."""

from __future__ import annotations

import os
from typing import Any, List, Mapping, Union

from . import _engine
from ._given import value_text

_Path = Union[str, "os.PathLike[str]"]


class Scenario(_engine.Scenario):
    """A scenario: nodes, links or radios, traffic, and what is measured; ``docs/reference/scenario.md`` has all keys.

    What is wrong with it is said by :meth:`load`, :meth:`check` and by running it, all mistakes at once.
    """

    @classmethod
    def load(cls, path: _Path) -> Scenario:
        """Reads a scenario file; paths in it are relative to its folder."""
        read = _engine.Scenario.read(os.fspath(path))
        # Whatever folder this process goes to later.
        return cls(read.text, os.path.abspath(read.folder))

    @classmethod
    def from_text(cls, text: str, folder: _Path = "") -> Scenario:
        """Reads a scenario from TOML text; paths in it are relative to ``folder``."""
        scenario = cls(text, os.fspath(folder))
        scenario.check()
        return scenario

    @classmethod
    def new(cls, name: str, duration: str, folder: _Path = "", **keys: Any) -> Scenario:
        """An empty scenario, to be filled with :meth:`add` and :meth:`set`."""
        scenario = cls("", os.fspath(folder))
        for key, value in {"name": name, "duration": duration, **keys}.items():
            scenario.set(key, value)
        return scenario

    def to_text(self) -> str:
        """Its TOML text; a change by :meth:`set` or :meth:`add` leaves comments out."""
        return self.text

    def save(self, path: _Path) -> None:
        """Writes it to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def set(self, path: str, value: Any) -> Scenario:
        """Sets the key of a path, as in campaigns: ``duration``, ``group[walker].router``, ``link[*].delay``.

        A name in brackets picks one of several tables, ``*`` all of them, a number the n-th. Gives itself back.
        """
        self.set_json(path, value_text(value))
        return self

    def add(self, table: str, **keys: Any) -> Scenario:
        """Adds a table to a list: ``add("node", name="rover", id="ipn:3.0")``. Gives itself back.

        A key that is a word of Python has ``_`` behind it: ``from_="rover"``.
        """
        self.add_json(table, value_text({key.rstrip("_"): value for key, value in keys.items()}))
        return self

    def changed(self, sets: Mapping[str, Any]) -> Scenario:
        """A copy in which these keys are set."""
        copy = Scenario(self.text, str(self.folder))
        for path, value in sets.items():
            copy.set(path, value)
        return copy

    def copy(self) -> Scenario:
        """A copy."""
        return self.changed({})

    def check(self) -> List[str]:
        """What is doubtful about it, in words; what is wrong with it is raised."""
        return super().check()

    def __repr__(self) -> str:
        try:
            return f"Scenario({self.name!r})"
        except _engine.ConfigError:
            return "Scenario(no TOML)"

    def __reduce__(self) -> Any:
        return (Scenario, (self.text, str(self.folder)))
