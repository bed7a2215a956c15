"""Run tests of the core in a copy of the project that has neither `tvmagic/compat` nor `tests/compat`.

    python tests/support/without_compat.py tests/arith tests/te/test_golden.py

Returns pytest's exit status. Without arguments all of `tests` runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {ROOT / "tvmagic" / "compat", ROOT / "tests" / "compat"}


def copy_core(target: Path) -> None:
    """Copy the package, its tests and what they read to `target`, without compat."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(folder, name) in LEFT_OUT or name == "__pycache__"]

    for name in ("tvmagic", "tests", "docs", "notebooks", "benchmarks", "binder"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, target / file.name)


def main(arguments: list[str]) -> int:
    """Run pytest with `arguments` in the copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy_core(Path(folder))
        environment = {**os.environ, "PYTHONPATH": folder}  # before the installation that is edited in place
        check = "import tvmagic, sys; sys.exit(not tvmagic.__file__.startswith(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", check, folder], cwd=folder, env=environment, check=True)
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=folder, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
