"""Which tests execute each line of a package: one run with coverage, kept in `.cache/mutants` until a file changes.

Only the test files that changed run again; if a file of the package itself changed, all of them do. Needs pytest-cov.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "mutants"
SAID = "pytest.txt"  # in a tree: what its last run of pytest wrote


def copy_tree(place: pathlib.Path) -> pathlib.Path:
    """The tree as links, so that a copy takes neither time nor memory."""
    tree = place / "tree"
    for name in ("tvmagic", "tests", "benchmarks", "notebooks", "docs"):
        shutil.copytree(ROOT / name, tree / name, copy_function=os.link, ignore=shutil.ignore_patterns(".*"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            os.link(path, tree / path.name)
    return tree


def pytest(tree: pathlib.Path, arguments: list[str], seconds: float | None = None) -> int:
    """The exit code of pytest in `tree`; -1 if it took longer than `seconds`. What it says is in the file `SAID`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not soak and not browser"]
    environment = {**os.environ, "PYTHONPATH": str(tree), "HYPOTHESIS_STORAGE_DIRECTORY": str(tree / ".hypothesis")}
    with open(tree / SAID, "w") as said:
        process = subprocess.Popen(
            [*command, *arguments], cwd=tree, env=environment, stdout=said, stderr=said, start_new_session=True
        )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return -1
    finally:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass


@dataclass
class Covered:
    """The tests that execute each line of a file, "" if it runs before the first test; each test's time, in seconds."""

    tests: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def of(self, path: str, line: int, function: tuple[int, int] | None) -> list[str]:
        """The tests that run a line, else those that enter its function (first and last line); the quickest first.

        What runs as the file is imported is met by whoever imports it: all tests of the package, first those that run
        something in the file.
        """
        lines = self.tests.get(path, {})
        if function is None or self.before(path, line):
            inside = set().union(*lines.values())
            return sorted(self.seconds, key=lambda name: (name not in inside, self.seconds[name]))
        chosen = lines.get(line, set())
        chosen = chosen or set().union(*(lines.get(n, ()) for n in range(function[0], function[1] + 1)))
        return sorted(chosen & self.seconds.keys(), key=self.seconds.__getitem__)

    def before(self, path: str, line: int) -> bool:
        """Whether a line runs before the first test, so that a fault there has to be planted before."""
        return "" in self.tests.get(path, {}).get(line, ())


def covered(sources: list[pathlib.Path], tests: Iterable[str], jobs: int = 1) -> Covered:
    """What the test files in the folders `tests` execute of `sources`; tests that fail by themselves are left out."""
    texts = b"".join(path.read_bytes() for path in sources)
    files = [path for folder in tests for path in sorted((ROOT / folder).rglob("test_*.py"))]
    keys = {str(p.relative_to(ROOT)): hashlib.sha256(texts + p.read_bytes()).hexdigest()[:24] for p in files}
    missing = [name for name, key in keys.items() if not (KEPT / f"{key}.json").exists()]
    if missing:
        _run(sources, {name: keys[name] for name in missing}, jobs)
    found = Covered()
    for key in keys.values():
        kept = json.loads((KEPT / f"{key}.json").read_text())
        found.seconds.update(kept["seconds"])
        for path, by_line in kept["lines"].items():
            lines = found.tests.setdefault(path, {})
            for line, names in by_line.items():
                lines.setdefault(int(line), set()).update(kept["names"][number] for number in names)
    return found


def _run(sources: list[pathlib.Path], keys: dict[str, str], jobs: int) -> None:
    """Run the test files of `keys` with coverage and keep one JSON file for each: seconds of a test, tests of a line."""
    with tempfile.TemporaryDirectory() as place:
        tree = copy_tree(pathlib.Path(place))
        folders = sorted({str(p.parent.relative_to(ROOT)) for p in sources})
        arguments = [a for f in folders for a in ("--cov", f)]
        arguments += ["--cov-context=test", "--cov-report=", "--junitxml=times.xml", *keys]
        if pytest(tree, [*arguments, *(("-n", str(jobs)) if jobs > 1 else ())]) not in (0, 1):
            sys.exit(f"the tests do not run:\n{(tree / SAID).read_text()[-4000:]}")
        kept: dict[str, dict[str, Any]] = {name: {"names": [], "seconds": {}, "lines": {}} for name in keys}
        for case in ET.parse(tree / "times.xml").iter("testcase"):
            name = "::".join([*_file_of(case.get("classname", ""), tree), case.get("name", "")])
            if case.find("failure") is None and case.find("error") is None:
                kept[name.split("::")[0]]["seconds"][name] = float(case.get("time", "0"))
            else:
                print(f"left out, fails without any fault: {name}", flush=True)
        numbers: dict[str, dict[str, int]] = {name: {} for name in keys}
        for path, line, test in _lines(tree):
            for name in (test.split("::")[0],) if test else keys:
                number = numbers[name].setdefault(test, len(numbers[name]))
                kept[name]["lines"].setdefault(path, {}).setdefault(line, []).append(number)
        KEPT.mkdir(parents=True, exist_ok=True)
        for name, key in keys.items():
            kept[name]["names"] = list(numbers[name])
            (KEPT / f"{key}.json").write_text(json.dumps(kept[name]))


def _lines(tree: pathlib.Path) -> Iterable[tuple[str, int, str]]:
    import coverage

    data = coverage.CoverageData(str(tree / ".coverage"))
    data.read()
    for name in data.measured_files():
        path = str(pathlib.Path(name).relative_to(tree))
        for line, contexts in data.contexts_by_lineno(name).items():
            yield from ((path, line, test) for test in {c.split("|")[0] for c in contexts})


def _file_of(classname: str, tree: pathlib.Path) -> list[str]:
    """A test's class as JUnit's report writes it, as the file and the classes inside it."""
    parts = classname.split(".")
    for count in range(len(parts), 0, -1):
        path = pathlib.Path(*parts[:count]).with_suffix(".py")
        if (tree / path).exists():
            return [str(path), *parts[count:]]
    return [classname]
