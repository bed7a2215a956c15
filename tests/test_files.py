"""Files of users are replaced as a whole, and files that others may have made are not loaded."""

from __future__ import annotations

import ast
import errno
import json
import os
import pathlib
import random
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from damaged_files import damages
from refusals import refuses
from tools import needs

import tvmagic
from tvmagic import files, te
from tvmagic.errors import TVMagicError
from tvmagic.files import read_entry, read_table, replacing, write_entry, write_file, write_table

ROOT = pathlib.Path(tvmagic.__file__).parent
posix = pytest.mark.skipif(os.name == "nt", reason="needs owners and modes")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")

# ---------------------------------------------------------------------------- all places that write

WRITES = {"write_text", "write_bytes", "savez", "savez_compressed", "savetxt", "tofile", "mkstemp", "NamedTemporaryFile",
          "copyfile", "copy", "copy2", "move", "copytree"}  # fmt: skip
NAMES = re.compile(rf"\b({'|'.join(sorted(WRITES))}|f?d?open|dump|save)\(")
# The functions that write, each with the reason why what it writes cannot be a user's file with old content.
ALLOWED = {
    ("files", "_write"): "writes the file that `replacing` made",
    ("files", "_create_beside"): "creates a new file",
    ("runtime.tar", "tar"): "writes the file that `replacing` made",
    ("tune.database", "add"): "appends a line, and takes it back if there is no room",
    ("tune.measurement_lock", "_open_lock"): "the file stays empty",
    ("tune.problem", "to_bytes"): "writes to memory",
    ("runtime.seal", "append_seal"): "writes to the file that `replacing` made",
    ("tune.worker", "main"): "writes to a stream",
    ("runners.kernel_worker", "serve"): "writes to a stream",
}


def _writing_functions() -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        if not NAMES.search(text):
            continue
        tree = ast.parse(text)
        writes = {id(n): n.lineno for n in ast.walk(tree) if isinstance(n, ast.Call) and _writes(n)}
        if not writes:
            continue
        functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        inside: set[int] = set()
        for function in functions:
            calls = {id(n) for n in ast.walk(function)} & writes.keys()
            inside |= calls
            if calls:
                found[module, function.name] = max(writes[call] for call in calls)
        if writes.keys() - inside:
            found[module, ""] = max(writes[call] for call in writes.keys() - inside)
    return found


def _writes(call: ast.Call) -> bool:
    """Whether a call may write to a file: by its name, or by the mode of an `open`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    owner = call.func.value.id if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) else ""
    if name in WRITES:
        return name not in ("copy", "move") or owner == "shutil"
    if name == "dump" and owner in ("json", "pickle"):
        return True
    if name == "save" and owner == "np":
        return True
    if name in ("open", "fdopen"):
        texts = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        flags = {n.attr for n in ast.walk(call) if isinstance(n, ast.Attribute)}
        return bool(flags & {"O_WRONLY", "O_RDWR", "O_CREAT"}) or any(
            text in ("w", "wb", "a", "ab", "x", "xb", "r+", "r+b", "w+", "wt", "at") for text in texts
        )
    return False


def test_all_functions_that_write_files_are_known() -> None:
    found = _writing_functions()
    unknown = {
        f"tvmagic.{module}:{line} ({name})" for (module, name), line in found.items() if (module, name) not in ALLOWED
    }
    assert not unknown, f"call tvmagic.files.write_file instead: {unknown}"
    assert not set(ALLOWED) - set(found)


def test_search_for_writes_sees_each_kind() -> None:
    for text in ("open(p, 'w')", "p.open('ab')", "p.write_text(x)", "np.save(p, a)", "json.dump(x, f)", "shutil.copy(a, b)",
                 "os.open(p, os.O_RDWR)"):  # fmt: skip
        assert _writes(ast.parse(text, mode="eval").body), text  # type: ignore[arg-type]
    for text in ("open(p)", "p.open('rb')", "json.dumps(x)", "a.copy()", "module.save(p)"):
        assert not _writes(ast.parse(text, mode="eval").body), text  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- files of users


def _add_one() -> Any:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    return tvmagic.build(te.create_schedule(B.op), [A, B])


def _operator() -> Any:
    from tvmagic.operators import operator

    return operator("add", "A: float32[n]\nB[i] = A[i] + 1")


def _notebook(path: pathlib.Path) -> None:
    cell = {"cell_type": "code", "source": "1", "metadata": {}, "outputs": [], "execution_count": None}
    path.write_text(json.dumps({"cells": [cell] * 60, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def _share(path: pathlib.Path) -> None:
    from tvmagic.share import main

    if path.is_file() and os.path.getsize(path) < 100:
        _notebook(path)
    if main([str(path)]):
        raise TVMagicError("refused")


def _page(path: pathlib.Path) -> None:
    from tvmagic.notebook import page

    page(_operator(), path)


def _save(path: pathlib.Path) -> None:
    from tvmagic.notebook import passes

    passes(_operator()).save(path)


WRITERS: dict[str, Callable[[pathlib.Path], Any]] = {
    "text": lambda path: write_file(path, "a" * 20_000),
    "page.html": _page,
    "passes.html": _save,
    "module.ll": lambda path: _add_one().save(path),
    "module.s": lambda path: _add_one().save(path),
    "module.o": lambda path: _add_one().save(path),
    "exported.o": lambda path: _add_one().export_library(path),
    "exported.tar": lambda path: _add_one().export_library(path),
    "exported.so": lambda path: _add_one().export_library(path),
    "exported.a": lambda path: _add_one().export_library(path),
}
TOOLS = {"exported.so": [needs("cc")], "exported.a": [needs("ar")]}


@pytest.fixture(params=[pytest.param(name, marks=TOOLS.get(name, [])) for name in WRITERS])
def writer(request: pytest.FixtureRequest) -> tuple[str, Callable[[pathlib.Path], Any]]:
    return request.param, WRITERS[request.param]


@posix
def test_writers_keep_mode_and_link(writer: Any, tmp_path: pathlib.Path) -> None:
    name, write = writer
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / name, tmp_path / name
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write(link)
    assert link.is_symlink() and target.read_bytes()[:3] != b"old"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert not [p for p in (tmp_path / "real").iterdir() if p.name.startswith(".")]


@posix
def test_full_disk_keeps_old_file(writer: Any, tmp_path: pathlib.Path) -> None:
    """A limit on the size of files stands for a disk that is full: each write beyond it fails."""
    name, write = writer
    path = tmp_path / name
    path.write_text("old")
    write(tmp_path / f"new{path.suffix}")  # what is compiled once, and the modules
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limit[1]))
    try:
        with pytest.raises(TVMagicError) as error:
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert path.read_text() == "old"
    assert path.stem in str(error.value) or name.startswith("exported")
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@posix
def test_disk_that_is_full_after_some_files_keeps_all_old_files(tmp_path: pathlib.Path) -> None:
    """An object file has a header and a description; each limit has room for other ones of the three."""
    f, limit = _add_one(), resource.getrlimit(resource.RLIMIT_FSIZE)
    f.save(tmp_path / "new.o")
    paths = {path: path.with_stem("old") for path in sorted(tmp_path.iterdir())}
    sizes = sorted(path.stat().st_size for path in paths)
    assert len(sizes) == 3
    for size in sizes:
        for old in paths.values():
            old.write_text("old")
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, limit[1]))
        try:
            with pytest.raises(TVMagicError):
                f.save(tmp_path / "old.o")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert {old.read_bytes() for old in paths.values()} == {b"old"}
        assert len(list(tmp_path.iterdir())) == 6


def test_share_keeps_notebook_on_full_disk(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "reader.ipynb"
    _notebook(path)
    before = path.read_bytes()
    code = (
        "import resource, sys; from tvmagic.share import main; import signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "cannot write" in done.stderr and "Traceback" not in done.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a\0b", "", "folder", "missing/file", "x" * 300, "half \ud800 pair", "file/below"])
def test_unusable_names_are_refused_without_change(writer: Any, name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    path = f"{tmp_path}/{name}" if name else ""
    if "." in writer[0]:
        path = f"{path}{pathlib.Path(writer[0]).suffix}" if name not in ("", "folder") else path
    if writer[0].startswith(("module", "exported")) and name in ("", "folder", "missing/file"):
        pytest.skip("the suffix says what is written, and folders of modules are created")
    with pytest.raises(TVMagicError):
        writer[1](path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_file_in_a_folder_that_cannot_be_written_is_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.html").write_text("old")
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_CREAT:  # root may write everywhere
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)
    with refuses("file.not_writable"):
        write_file(tmp_path / "page.html", "new")
    assert (tmp_path / "page.html").read_text() == "old"


def test_interrupt_keeps_old_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "a.txt") as part:
        part.write_text("half")
        raise KeyboardInterrupt
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"] and (tmp_path / "a.txt").read_text() == "old"


@posix
def test_new_file_has_the_mode_of_the_umask(tmp_path: pathlib.Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@posix
def test_devices_are_written_in_place(tmp_path: pathlib.Path) -> None:
    write_file("/dev/null", "x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    if os.path.exists("/dev/full"):
        with refuses("file.not_writable"):
            write_file("/dev/full", "x")


# ---------------------------------------------------------------------------- caches


def test_damaged_entries_are_dropped(tmp_path: pathlib.Path) -> None:
    rng, path, made_by = random.Random(1), tmp_path / "entry", {"version": "1", "machine": ["x"]}
    for _ in range(60):
        content = rng.randbytes(rng.randrange(40))
        write_entry(path, made_by, content)
        assert read_entry(path, made_by) == content
        good = path.read_bytes()
        for bad in damages(good, rng):
            path.write_bytes(bad)
            if bad != good:
                assert read_entry(path, made_by) is None and not path.exists()
    write_entry(path, made_by, b"code")
    assert read_entry(path, {**made_by, "version": "2"}) is None and not path.exists()


def test_damaged_tables_are_empty(tmp_path: pathlib.Path) -> None:
    rng, path = random.Random(2), tmp_path / "table.json"
    rows = {"a": [1.5, 2], "b": {"tries": 3}}
    write_table(path, rows)
    good = path.read_bytes()
    for _ in range(200):
        for bad in damages(good, rng):
            path.write_bytes(bad)
            # white space does not matter, nor does damage to the name of the digest
            assert {k: v for k, v in read_table(path).items() if k in rows} in ({}, rows)


def test_damaged_object_files_are_compiled_anew(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tvmagic.codegen.llvm.cache import clear_cache

    monkeypatch.setenv("TVMAGIC_CACHE", str(tmp_path))
    rng = random.Random(3)

    def result() -> list[float]:
        clear_cache()
        out = np.zeros(4, "float32")
        _add_one()(np.zeros(4, "float32"), out)
        return list(out)

    assert result() == [1] * 4
    (path,) = tmp_path.glob("*.o")
    good = path.read_bytes()
    for bad in damages(good, rng):
        path.write_bytes(bad)
        assert result() == [1] * 4 and path.read_bytes() == good


@posix
@pytest.mark.parametrize("why", ["mode", pytest.param("owner", marks=as_root)])
def test_files_of_others_are_not_loaded(
    why: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "_warned", set())
    for name in ("a", "b"):
        write_entry(tmp_path / name, {}, b"code")
        os.chmod(tmp_path / name, 0o666) if why == "mode" else os.chown(tmp_path / name, 12345, 12345)
        assert read_entry(tmp_path / name, {}) is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "others can write to it" in said or "its owner is the user 12345" in said
    write_entry(tmp_path / "a", {}, b"new")  # ours from now on
    assert read_entry(tmp_path / "a", {}) == b"new"


@posix
def test_pipes_and_folders_in_a_cache_are_not_read(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "none"):
        assert read_entry(tmp_path / name, {}) is None and read_table(tmp_path / name) == {}


@pytest.mark.parametrize(
    ("platform", "environment", "cache", "data"),
    [
        ("linux", {}, ".cache/tvmagic", ".local/share/tvmagic"),
        ("linux", {"XDG_CACHE_HOME": "/c", "XDG_DATA_HOME": "/d"}, "/c/tvmagic", "/d/tvmagic"),
        ("darwin", {}, "Library/Caches/tvmagic", "Library/Application Support/tvmagic"),
        ("win32", {"LOCALAPPDATA": "/l", "APPDATA": "/r"}, "/l/tvmagic", "/r/tvmagic"),
        ("win32", {"TVMAGIC_CACHE": "/named"}, "/named", "tvmagic"),
    ],
)
def test_folders_follow_the_system(
    platform: str, environment: dict[str, str], cache: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = pathlib.Path("/home/reader")
    monkeypatch.setattr(pathlib.Path, "home", lambda: home)
    for name in ("TVMAGIC_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert (files.cache_folder(), files.data_folder()) == (home / cache, home / data)


@posix
def test_planted_lock_folder_is_not_used(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = files.private_folder()
    assert folder is not None and stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert files.private_folder() is None
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert files.private_folder() is None

    from tvmagic.tune.measurement_lock import alone

    with alone() as had:
        assert not had
    assert not list((tmp_path / "elsewhere").iterdir())
