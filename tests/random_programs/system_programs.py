"""Random operations on files, caches, threads and forked children, in odd surroundings.

A program is some operations in a new folder. Each runs alone or with a fault: a disk without room, a damaged file, a user
who may not write, a strange name. Whatever happens, a file is the old one or the new one as a whole, nothing else is
left behind, an error is a refusal or one of the system's, and afterwards all operations work again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from damaged_files import damages
from outcomes import Wrong, refusal

import tvmagic
from tvmagic import te
from tvmagic.codegen.llvm.cache import clear_cache, set_cache_dir
from tvmagic.tools import MissingTool
from tvmagic.tune.database import Database, Entry

USER = 54321  # who may not write to folders of root
SIZES = (1, 3, 8, 40)
NAMES = (
    "a\0b",
    "x" * 300,
    "half \ud800 pair",
    "folder",
    "missing/name",
    "pipe",
    "loop",
    "file/below",
    "é 中 '\"",
    "nowhere",
)
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 1 << 14, 1 << 18
built = iter(range(1, 10**9))


def function(number: int, bounds: bool = False) -> Any:
    """Build a function that adds `number`, by threads if it is odd."""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + float(number), name="B")
    s = te.create_schedule(B.op)
    if number % 2:
        s[B].parallel(s[B].op.axis[0])
    return tvmagic.build(s, [A, B], check_bounds=bounds)


def require(module: Any, number: int) -> None:
    """Raise `Wrong` unless a module adds `number`."""
    result = np.zeros(8, "float32")
    module(np.arange(8, dtype="float32"), result)
    if not (result == np.arange(8) + number).all():
        raise Wrong("result", f"{result[0]} instead of {number}")


@functools.cache
def known(number: int) -> Any:
    """Return a function that was built before any fault."""
    return function(number)


@functools.cache
def operator() -> Any:
    """Return an operator for pages."""
    from tvmagic.operators import operator as made

    return made("add", "A: float32[n]\nB[i] = A[i] + 1")


def write_notebook(path: pathlib.Path) -> None:
    """Write a notebook, if the name can be used and there is none."""
    output = {"output_type": "display_data", "metadata": {}, "data": {"text/html": "<b>é</b>" * 99}}
    cell = {"cell_type": "code", "source": "1", "metadata": {}, "outputs": [output], "execution_count": None}
    with contextlib.suppress(OSError, ValueError), open(path, "x", encoding="utf-8") as file:
        json.dump({"cells": [cell] * 9, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, file)


# ---------------------------------------------------------------------------- operations: of a path


OPERATIONS: dict[str, Callable[[pathlib.Path], Any]] = {}


def operation(suffix: str = "") -> Callable[[Any], Any]:
    """Declare an operation on a file with this suffix, or on a folder."""

    def declare(run: Callable[[pathlib.Path], Any]) -> Any:
        OPERATIONS[run.__name__ + suffix] = run
        return run

    return declare


def _saved(suffix: str, method: str) -> None:
    def run(path: pathlib.Path) -> None:
        number = 1 + len(suffix) + len(method)
        getattr(known(number), method)(path)
        if suffix in (".o", ".so", ".tar", ".a"):
            require(tvmagic.runtime.load_module(path), number)

    OPERATIONS[method + suffix] = run


for _suffix in (".o", ".ll", ".s"):
    _saved(_suffix, "save")
for _suffix in (".o", ".tar", *((".so", ".a") if shutil.which("cc") and shutil.which("ar") else ())):
    _saved(_suffix, "export_library")


def load(path: pathlib.Path) -> None:
    """Load a module that a former operation may have saved, and whose file may be damaged."""
    found = [p for p in sorted(path.parent.iterdir()) if p.suffix in (".o", ".so", ".tar", ".a")]
    found = [p for p in found if "-" in p.stem]  # which says who wrote it
    for file in found:
        method = file.stem.partition("-")[0]
        require(tvmagic.runtime.load_module(file), 1 + len(file.suffix) + len(method))


@operation(".ipynb")
def share(path: pathlib.Path) -> None:
    """Share the scripts of a notebook."""
    from tvmagic.share import main

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        if main([str(path)]) and not errors.getvalue().strip():
            raise Wrong("refused", "no word on the error stream")


@operation(".html")
def page(path: pathlib.Path) -> None:
    """Save the page of an operator."""
    tvmagic.notebook.page(operator(), path)


@operation(".html")
def passes(path: pathlib.Path) -> None:
    """Save the stepper."""
    tvmagic.notebook.passes(operator()).save(path)


@operation()
def cache(path: pathlib.Path) -> None:
    """Compile with a folder of object files, as three sessions would."""
    set_cache_dir(path)
    try:
        for number in (2, 3, 2):
            clear_cache()
            require(function(number), number)
    finally:
        set_cache_dir(None)


@operation(".jsonl")
def tuned(path: pathlib.Path) -> None:
    """Add a row to a database of schedules, and read it again."""
    database = Database(path)
    before = len(database.entries())
    added = Entry("p" * 64, "llvm", "m", [["split", {}]] * 9, 0.5 / (1 + before), [0.5])
    database.add(added)
    if added not in database.entries() or len(database.entries()) != before + 1:
        raise Wrong("result", "the database lost a row")


@operation(".json")
def progress(path: pathlib.Path) -> None:
    """Note an answer to a puzzle."""
    from tvmagic.puzzles.progress import Progress

    noted = Progress(path)
    before = noted.tries("split")
    noted.tried("split", True)
    if noted.tries("split") != before + 1:
        raise Wrong("result", "the answer was not noted")


@operation()
def dump(path: pathlib.Path) -> None:
    """Write the program after each pass."""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    with tvmagic.transform.PassContext(instruments=[tvmagic.instrument.DumpIR(path)]):
        tvmagic.lower(te.create_schedule(B.op), [A, B])


def search(path: pathlib.Path) -> None:
    """Search for a schedule, by workers in processes of their own, which takes seconds."""
    tvmagic.notebook.tune(operator(), trials=1, seconds=0.2, size=8, database=path)


@operation()
def threads(path: pathlib.Path) -> None:
    """Build, call and fail in several threads at once."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            require(function(number), number)
            checked = tvmagic.build(tvmagic.script.from_source(f"""
@T.prim_func
def main(A{number}: T.Buffer((4,)), n: T.int32):
    A{number}[n] = T.float32(1)
"""), check_bounds=True)  # fmt: skip
            for index in (4 + number, -number):
                try:
                    checked(np.zeros(4, "float32"), index)
                except tvmagic.TVMagicError as error:
                    if f"A{number}" not in str(error) or str(index) not in str(error):
                        raise Wrong("result", f"the message of another thread: {error}") from error
                else:
                    raise Wrong("result", "an index that is out of bounds was accepted")
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=run, args=(next(built),)) for _ in range(3)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for error in errors:
        raise error


@operation()
def fork(path: pathlib.Path) -> None:
    """Build and call in forked children, while a thread of the parent builds too."""
    number = next(built) + 10**6
    waiting = threading.Thread(target=lambda: function(number))
    waiting.start()
    children = []
    for more in range(2):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                require(function(number + more), number + more)
                require(known(3), 3)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    waiting.join()
    for child in children:
        if status := os.waitpid(child, 0)[1]:
            raise Wrong("died", f"a forked child ended with {status}")


# ---------------------------------------------------------------------------- faults: around an operation


FAULTS: dict[str, Callable[[pathlib.Path, random.Random], Any]] = {}


def fault(run: Callable[[pathlib.Path, random.Random], Iterator[None]]) -> Any:
    """Declare a fault around an operation in a folder."""
    FAULTS[run.__name__] = contextlib.contextmanager(run)
    return run


@fault
def none(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Run as it is."""
    yield


@fault
def no_room(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Limit the size of each file."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (rng.choice((0, 64, 1000, rng.randrange(1, 100_000))), limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


@fault
def few_files(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Allow few more open files than there are."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + rng.choice((0, 1, 2, 4, 8)), limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


@fault
def damaged(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Damage a file that is there."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_size]
    if files:
        file = rng.choice(files)
        file.write_bytes(rng.choice(damages(file.read_bytes(), rng)))
    yield


@fault
def other_user(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Run as a user to whom the folder and its files do not belong; without one, the folder is read-only."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.seteuid(USER)
        try:
            yield
        finally:
            os.seteuid(0)
        return
    folder.chmod(0o500)
    try:
        yield
    finally:
        folder.chmod(0o700)


@fault
def open_to_all(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Let others write to each file."""
    for file in folder.rglob("*"):
        if file.is_file():
            file.chmod(0o666)
    yield


@fault
def no_temporary_folder(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Name a temporary folder that is not there."""
    tempfile.tempdir = "/nonexistent/folder"
    try:
        yield
    finally:
        tempfile.tempdir = None


@fault
def no_current_folder(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Run in a folder that was removed."""
    before, gone = os.getcwd(), tempfile.mkdtemp()
    os.chdir(gone)
    os.rmdir(gone)
    try:
        yield
    finally:
        os.chdir(before)


@functools.cache
def own_mounts() -> bool:
    """Return whether this process may mount; what it mounts goes with it."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        return not libc.unshare(CLONE_NEWNS) and not libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    return False


@fault
def full_disk(folder: pathlib.Path, rng: random.Random) -> Iterator[None]:
    """Fill a small disk but for some pages, with the folder's files on it."""
    room = rng.choice((0, 4096, 16384, 65536))
    if not own_mounts():
        yield
        return
    kept = contents(folder)
    size = sum(-(-len(data) // 4096) * 4096 for data in kept.values()) + room + 4096
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        yield
        return
    try:
        _fill(folder, kept)
        yield
        found = contents(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
    for name in set(kept) - set(found):
        (folder / name).unlink()
    _fill(folder, found)


def _fill(folder: pathlib.Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        pathlib.Path(os.path.realpath(folder / name)).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


# ---------------------------------------------------------------------------- the law


@functools.cache
def warm_up() -> None:
    """Run each operation once: a fault in an import would be Python's."""
    with tempfile.TemporaryDirectory() as name:
        for operation, run in OPERATIONS.items():
            stem, dot, suffix = operation.partition(".")
            path = pathlib.Path(name) / f"{stem}-0{dot}{suffix}"
            if suffix == "ipynb":
                write_notebook(path)
            with contextlib.suppress(MissingTool):
                run(path)
        with contextlib.suppress(MissingTool):
            load(pathlib.Path(name) / "x")
    own_mounts()


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Return what the files of a folder hold."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.is_symlink()
    }


def is_whole(name: str, data: bytes) -> bool:
    """Return whether a file is one that an operation writes from beginning to end."""
    end = {".html": b"</html>", ".ipynb": b"}", ".json": b"}", ".jsonl": b"\n", ".h": b"#endif"}
    suffix = pathlib.PurePath(name).suffix
    if suffix in (".json", ".ipynb"):
        with contextlib.suppress(ValueError):
            return isinstance(json.loads(data), dict)
        return False
    return suffix == ".jsonl" and not data or len(data) > 20 and end.get(suffix, b"") in data[-20:]


class Case:
    """The operations of a seed."""

    builds = 4  # each operation may build

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng, self.without = random.Random(seed), without
        self.steps: list[tuple[str, str, str, int]] = []

    def make(self) -> None:
        """Choose operations, names and faults."""
        rng = self.rng
        names = rng.sample([*sorted(OPERATIONS), "load"], 3)
        for _ in range(rng.randint(3, 7)):
            name = rng.choice(names)
            name = "search.jsonl" if rng.random() < 0.02 else name
            stem, dot, suffix = name.partition(".")
            file = f"{rng.choice(NAMES)}" if rng.random() < 0.15 else f"{stem}-{rng.randrange(2)}"
            step = rng.choice(sorted(FAULTS)) if rng.random() < 0.7 else "none"
            self.steps.append((name, file + dot + suffix, step, rng.randrange(10**9)))

    def check(self) -> None:
        """Raise `Wrong` unless every step keeps the law."""
        self.make()
        warm_up()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            folder.chmod(0o755)
            (folder / "folder").mkdir()
            (folder / "file").write_text("old")
            (folder / "loop").symlink_to("loop")
            (folder / "nowhere").symlink_to("missing/file")
            os.mkfifo(folder / "pipe")
            for step in self.steps:
                self._step(folder, *step)
            require(function(next(built)), next(built) - 1)

    def _step(self, folder: pathlib.Path, name: str, file: str, fault: str, seed: int) -> None:
        """Run an operation with a fault around it, and compare the folder before and after."""
        what, rng, path = f"{name} of {file!r} with {fault}", random.Random(seed), folder / file
        run = OPERATIONS.get(name, search if name == "search.jsonl" else load)
        if path.suffix == ".ipynb":
            write_notebook(path)
        before = contents(folder)
        with FAULTS[fault](folder, rng):
            before = contents(folder) if fault == "damaged" else before
            try:
                run(path)
            except Wrong as error:
                raise Wrong(error.kind, f"{what}: {error}") from error
            except MissingTool:  # as for libraries without a C compiler
                pass
            except Exception as error:
                if not refusal(error) and not (isinstance(error, OSError) and error.strerror):
                    text = " ".join(str(error).split())[:300]
                    raise Wrong("internal", f"{what}: {type(error).__name__}: {text}") from error
                if fault == "none" and "-" in file and name != "load" and not self._was_damaged(path):
                    raise Wrong("refused", f"{what}: {' '.join(str(error).split())[:300]}") from error
        after = contents(folder)
        for key, data in after.items():
            if pathlib.PurePath(key).name.startswith("."):
                raise Wrong("state", f"{what}: left {key} behind")
            if before.get(key) != data and not is_whole(key, data):
                raise Wrong("state", f"{what}: {key} has {len(data)} bytes, {len(before.get(key, b''))} before")
        if lost := set(before) - set(after):
            raise Wrong("state", f"{what}: removed {sorted(lost)}")

    def _was_damaged(self, path: pathlib.Path) -> bool:
        """Return whether an earlier step may have damaged what the operation reads."""
        return any(step[2] in ("damaged", "other_user", "open_to_all") for step in self.steps)

    def text(self) -> str:
        """The operations with their faults."""
        return "\n".join(f"# {name} of {file!r} with {fault}" for name, file, fault, _ in self.steps) + "\n"

    def holders(self) -> list[Any]:
        """Expressions for a shrinker: there are none."""
        return []
