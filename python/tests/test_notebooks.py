"""Notebooks do what they show: their cells are run one after the other, as a reader would."""

import json
import shutil
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(NOTEBOOKS, tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path / "notebooks")
    notebook = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and notebook["cells"][0]["cell_type"] == "markdown"
    said: dict = {"__name__": "__main__"}
    for number, cell in enumerate(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None, "kept without results"
        exec(compile("".join(cell["source"]), f"{name}[{number}]", "exec"), said)


def test_there_are_three_notebooks() -> None:
    assert len(list(NOTEBOOKS.glob("*.ipynb"))) == 3
