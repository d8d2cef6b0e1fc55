"""Tiny labelled and captioned data for the tests of the evaluation."""

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("red_apple", "anchor", "cat", "dogs", "keys", "photo")


def picture(number: int, size: tuple[int, int] = (40, 36)) -> Image.Image:
    """A picture (width, height) of large blocks that are different for each number."""
    blocks = np.random.default_rng(number).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST)


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    picture(number).save(buffer, "PNG")
    return buffer.getvalue()


def labelled_folder(root: Path, counts: dict[str, int]) -> Path:
    """A folder a class with so many pictures; numbers count on over all."""
    number = 0
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for _ in range(count):
            (root / name / f"{number:03d}.png").write_bytes(png(number))
            number += 1
    return root


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
