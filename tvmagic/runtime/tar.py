"""Archives of object files, which `export_library` makes of a name that ends in `.tar`."""

from __future__ import annotations

import contextlib
import pathlib
import tarfile
from collections.abc import Iterator, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.files import replacing, write_file

__all__ = ["normalize_file_list_by_unpacking_tars", "tar", "untar"]


def tar(output: Any, files: Sequence[Any] | str) -> None:
    """Put files into the archive `output`, each by its name without its folder."""
    given = [files] if isinstance(files, (str, pathlib.Path)) else list(files)
    names = [pathlib.Path(file).name for file in given]
    if len(set(names)) < len(names):
        raise TVMagicError(f"two files of an archive have the same name: {', '.join(names)}", code="tar.repeated_name")
    with replacing(output) as part, tarfile.open(part, "w") as archive:
        for file, name in zip(given, names):
            archive.add(str(file), arcname=name)


tar.output_format = "tar"  # type: ignore[attr-defined]


def untar(tar_file: Any, directory: Any) -> None:
    """Write the files of an archive to a folder; links, and what would be written elsewhere, are refused."""
    folder = pathlib.Path(directory).resolve()
    with _reading(tar_file) as archive:
        for member in archive.getmembers():
            path = (folder / member.name).resolve()
            content = archive.extractfile(member) if member.isfile() else None
            if content is None or folder not in path.parents:
                raise TVMagicError(
                    f"the archive `{tar_file}` holds `{member.name}`, which is not a file of a folder",
                    code="tar.unsafe_name",
                )
            write_file(path, content.read(), make_folder=True)


@contextlib.contextmanager
def _reading(tar_file: Any) -> Iterator[tarfile.TarFile]:
    """Open an archive. Raises TVMagicError if it cannot be read."""
    try:
        with tarfile.open(tar_file) as archive:
            yield archive
    except (OSError, EOFError, ValueError, tarfile.TarError) as error:
        why = str(error).split("\n")[0] or type(error).__name__
        raise TVMagicError(f"cannot read the archive `{tar_file}`: {why}", code="tar.not_readable") from error


def normalize_file_list_by_unpacking_tars(temp: Any, file_list: Sequence[Any]) -> list[str]:
    """The files of a list, with those inside in place of an archive, which are written to the folder `temp`."""
    found: list[str] = []
    for number, file in enumerate(map(str, file_list)):
        if not file.endswith(".tar"):
            found.append(file)
            continue
        folder = pathlib.Path(temp.relpath(f"archive{number}"))
        folder.mkdir(parents=True, exist_ok=True)
        untar(file, folder)
        found += [str(path) for path in sorted(folder.iterdir())]
    return found
