"""A broken sample is a word to count, whatever is broken in it."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from tar_files import encoded, picture

from models.pictures import open_picture
from train.data.decode import decode_captions, decode_picture


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header promises a large picture."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


def wrong_sum() -> bytes:
    content = bytearray(encoded(1, "PNG"))
    content[content.index(b"IDAT") + 8] ^= 0xFF
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no image"),
        (b"<html>404 not found</html>", "not a picture"),
        (encoded(1, size=(300, 300))[:2000], "truncated picture"),
        (encoded(1, "PNG", (300, 300))[:700], "truncated picture"),
        (wrong_sum(), "damaged picture"),
        (bomb(6000, 6000), "too large"),
        (bomb(30_000, 30_000), "too large"),
        (bomb(2000, 10), "too large"),
    ],
)
def test_a_broken_picture_is_told_by_its_reason(content: bytes, reason: str) -> None:
    assert decode_picture(content) == reason


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_the_content_decides_what_a_picture_is(form: str) -> None:
    read = decode_picture(encoded(2, form))
    assert isinstance(read, Image.Image)
    assert read.mode == "RGB"
    assert np.abs(np.asarray(read).astype(int) - np.asarray(picture(2)).astype(int)).mean() < 6


def test_a_turned_grey_and_reduced_jpeg_is_upright_rgb() -> None:
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[274] = 6  # turned by a quarter
    picture(3, (400, 200)).convert("L").save(buffer, "JPEG", exif=exif)
    read = decode_picture(buffer.getvalue(), 50)
    assert isinstance(read, Image.Image)
    assert (read.mode, read.size) == ("RGB", (50, 100))


@pytest.mark.parametrize("orientation", [None, 1, 3, 6])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_picture_is_read_as_everywhere_in_the_project(mode: str, orientation: int | None) -> None:
    buffer = io.BytesIO()
    exif = Image.Exif()
    if orientation:
        exif[274] = orientation
    picture(3, (40, 20)).convert(mode).save(buffer, "JPEG", exif=exif)
    read = decode_picture(buffer.getvalue())
    assert isinstance(read, Image.Image)
    assert np.array_equal(np.asarray(read), np.asarray(open_picture(buffer.getvalue())))


@pytest.mark.parametrize(
    ("content", "field", "captions"),
    [
        (b" a dog\n", "", ("a dog",)),
        (b"\xef\xbb\xbfa dog", "", ("a dog",)),
        (b" \n", "", "empty caption"),
        (b"\xff\xfe\x00", "", "caption not text"),
        (b'{"caption": "a cat"}', "caption", ("a cat",)),
        (b'{"caption": ["a cat", " ", "two"]}', "caption", ("a cat", "two")),
        (b'{"caption": null}', "caption", "no caption"),
        (b'{"key": 1}', "caption", "no caption"),
        (b'{"caption": 3}', "caption", "caption not text"),
        (b'["caption"]', "caption", "caption not text"),
        (b"{", "caption", "caption not text"),
        (b"[" * 100_000, "caption", "caption not text"),
    ],
)
def test_captions_are_read_or_their_fault_is_told(content: bytes, field: str, captions: object) -> None:
    assert decode_captions(content, field) == captions
