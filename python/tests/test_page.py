"""What docs/how-to/use-from-python.md shows runs as it is shown."""

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def test_page_runs_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs/how-to/use-from-python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    shutil.copy(ROOT / "python/notebooks/crowd.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    said: dict = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"use-from-python.md[{number}]", "exec"), said)
    assert len(said["frame"]) == 20
