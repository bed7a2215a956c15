"""The API reference builds without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_reference_builds(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the reference needs `mkdocs`: pip install .[docs]")
    source, site = ROOT / "build" / "reference", tmp_path / "site"
    subprocess.run([sys.executable, "docs/reference.py", str(source)], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(site)], cwd=ROOT, check=True)
    assert "create_schedule" in (site / "api" / "te.html").read_text(encoding="utf-8")
