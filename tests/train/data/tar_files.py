"""Tiny tars and pictures for the tests of the data side."""

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def picture(number: int, size: tuple[int, int] = (24, 20)) -> Image.Image:
    """A smooth picture (width, height) that is different for each number."""
    width, height = size
    rows, cols = np.mgrid[0:height, 0:width]
    red = 255 * cols / max(1, width - 1)
    green = 255 * rows / max(1, height - 1)
    blue = np.full((height, width), (37 * number) % 256)
    return Image.fromarray(np.stack([red, green, blue], axis=-1).astype(np.uint8))


def encoded(number: int, form: str = "JPEG", size: tuple[int, int] = (24, 20)) -> bytes:
    buffer = io.BytesIO()
    picture(number, size).save(buffer, form)
    return buffer.getvalue()


def tar_bytes(members: list[tuple[str, bytes]], form: int = tarfile.USTAR_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def pairs(first: int, count: int) -> list[tuple[str, bytes]]:
    """`count` samples with keys from `first` on, as img2dataset names them."""
    members = []
    for number in range(first, first + count):
        members += [(f"{number:09d}.jpg", encoded(number)), (f"{number:09d}.txt", f"number {number}".encode())]
    return members


def write_shards(folder: Path, lengths: list[int]) -> Path:
    """Shards of these lengths; keys count on over all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard, length in enumerate(lengths):
        (folder / f"{shard:05d}.tar").write_bytes(tar_bytes(pairs(sum(lengths[:shard]), length)))
    return folder


def broken_shard(folder: Path) -> Path:
    """Eight samples: 0, 1 and 2 whole, a truncated picture, a text as picture, two without words, one cut off."""
    folder.mkdir(parents=True, exist_ok=True)
    members = [
        *pairs(0, 3),
        ("000000003.jpg", encoded(3, size=(200, 200))[:1500]),
        ("000000003.txt", b"truncated"),
        ("000000004.jpg", b"<html>404</html>"),
        ("000000004.txt", b"no picture"),
        ("000000005.jpg", encoded(5)),
        ("000000006.jpg", encoded(6)),
        ("000000006.txt", b""),
        ("000000007.txt", b"cut"),
        ("000000007.jpg", encoded(7, "PNG", (90, 90)) + bytes(3000)),
    ]
    content = tar_bytes(members)
    at = content.index(b"000000007.jpg")
    (folder / "00000.tar").write_bytes(content[: at + 512 + 700])
    return folder
