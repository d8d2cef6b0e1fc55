"""Files and folders that are there whole or not at all, also after a power cut; a disk's errors as sentences."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import StudioError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """While open, what the system says against writing `path` is a sentence.

    Raises:
        StudioError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise StudioError(
            f"{path} cannot be written ({error.strerror or error}): make room there, or choose another place."
        ) from error


def write_whole(path: Path, text: str) -> None:
    """Write a text file in one step, flushed to the disk; its name is flushed by `sync_folder` of its folder."""
    partial = path.with_name(path.name + ".tmp")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder; systems that cannot open folders have no need."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_folder(partial: Path, folder: Path) -> None:
    """Let a complete folder take the place of another, if there is one: that one goes once the new one is there.

    Both are on one file system. Files of `partial` are flushed to the disk first.
    """
    _flush(partial)
    aside = folder.with_name(folder.name + ".old")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists():
        os.replace(folder, aside)
    try:
        os.replace(partial, folder)
    except OSError:
        if aside.exists():
            os.replace(aside, folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def place_folder(partial: Path, folder: Path) -> None:
    """Give a complete folder its name, which nothing has but an empty folder; both are on one file system."""
    _flush(partial)
    if folder.is_dir():
        folder.rmdir()
    os.replace(partial, folder)
    sync_folder(folder.parent)


def _flush(folder: Path) -> None:
    """Flush the files of a folder and of those in it to the disk, and their names."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
        elif path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
