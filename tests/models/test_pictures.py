"""Reading pictures: what files hide is made plain, and what is no picture is said in a sentence."""

import contextlib
import importlib
import io
import pkgutil
from pathlib import Path

import numpy as np
import pytest
from orientations import STORED
from PIL import Image, ImageFile

import models
from models import open_picture
from models.errors import PictureError


def stored(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def two_halves() -> Image.Image:
    canvas = np.zeros((20, 40, 3), np.uint8)
    canvas[:, :20, 0] = 255
    canvas[:, 20:, 2] = 255
    return Image.fromarray(canvas)


def test_all_eight_orientations_of_a_phone_photo_come_out_upright() -> None:
    """A camera stores turned pixels and the turn that undoes it; each pair must show the same scene."""
    wanted = np.asarray(two_halves())
    for orientation, turn in STORED.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        turned = two_halves() if turn is None else two_halves().transpose(turn)
        picture = open_picture(stored(turned, "PNG", exif=exif))
        assert np.array_equal(np.asarray(picture), wanted), orientation


def test_transparent_pixels_become_white_not_what_hides_under_them() -> None:
    canvas = np.zeros((32, 32, 4), np.uint8)
    canvas[..., 0] = canvas[..., 2] = 255
    canvas[8:16, 8:16] = (0, 255, 0, 255)
    picture = np.asarray(open_picture(stored(Image.fromarray(canvas))))
    assert tuple(picture[0, 0]) == (255, 255, 255)
    assert tuple(picture[10, 10]) == (0, 255, 0)


def test_a_palette_with_transparent_entries_becomes_white_there() -> None:
    image = Image.fromarray(np.array([[0, 1]], np.uint8), mode="P")
    image.putpalette([255, 0, 255, 0, 0, 255])
    picture = np.asarray(open_picture(stored(image, transparency=bytes([0, 255]))))
    assert picture.tolist() == [[[255, 255, 255], [0, 0, 255]]]


@pytest.mark.parametrize("kind", ["16-bit PNG", "float TIFF"])
def test_deep_ramps_keep_their_range(kind: str) -> None:
    ramp = np.linspace(0, 1, 64, dtype=np.float32)[None].repeat(4, 0)
    if kind == "16-bit PNG":
        data = stored(Image.fromarray((ramp * 65535).astype(np.uint16)))
    else:
        data = stored(Image.fromarray(ramp), "TIFF")
    picture = np.asarray(open_picture(data))[0, :, 0].astype(int)
    assert picture[0] == 0
    assert picture[-1] == 255
    assert np.abs(picture - np.linspace(0, 255, 64)).max() <= 1


def test_the_first_frame_of_an_animation_is_taken_as_rgb() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    data = stored(frames[0], "GIF", save_all=True, append_images=frames[1:])
    picture = open_picture(data)
    assert picture.mode == "RGB"
    assert picture.getpixel((4, 4)) == (255, 0, 0)  # type: ignore[comparison-overlap]


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "picture.jpg"
    path.write_bytes(stored(two_halves(), "PNG"))
    assert open_picture(path).size == (40, 20)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "not a picture that can be read"),
        (b"<!DOCTYPE html><p>no", "not a picture that can be read"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture that can be read"),
    ],
)
def test_files_that_are_no_pictures_are_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(PictureError, match=sentence):
        open_picture(data)


def test_a_truncated_jpeg_is_refused() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    data = stored(Image.fromarray(noise), "JPEG")
    with pytest.raises(PictureError, match="cannot be read to its end"):
        open_picture(data[: len(data) * 2 // 3])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_no_module_makes_pillow_take_truncated_pictures(kind: str) -> None:
    """Pillow has one switch for the whole process, and one library that turns it makes grey areas of missing pixels."""
    for module in pkgutil.walk_packages(models.__path__, "models."):
        importlib.import_module(module.name)
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    data = stored(Image.fromarray(noise), kind)
    assert open_picture(data).size == (300, 200)
    with pytest.raises(PictureError):
        open_picture(data[: len(data) * 2 // 3])
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


@pytest.mark.parametrize(
    ("size", "sentence"), [((6000, 5000), "30.0 megapixels"), ((20000, 20000), "larger than 25,000,000 pixels")]
)
def test_a_picture_beyond_25_megapixels_is_refused_by_its_header(size: tuple[int, int], sentence: str) -> None:
    data = stored(Image.new("1", size))
    with pytest.raises(PictureError, match=sentence):
        open_picture(data)


def test_a_strip_of_one_by_forty_pixels_works_and_one_by_fifty_one_does_not() -> None:
    assert open_picture(stored(Image.new("RGB", (1, 40)))).size == (1, 40)
    with pytest.raises(PictureError, match="51 times longer"):
        open_picture(stored(Image.new("RGB", (51, 1))))


def test_damaged_exif_does_not_lose_the_picture() -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a description"
    data = bytearray(stored(two_halves(), "JPEG", exif=exif, quality=95))
    for at in (26, 41, 84):
        damaged = bytes(data[:at]) + b"\0" + bytes(data[at + 1 :])
        assert sorted(open_picture(damaged).size) == [20, 40]


def test_damaged_files_are_refused_with_a_sentence_or_read_but_never_raise_anything_else() -> None:
    for kind in ("AVIF", "WEBP", "PNG", "TIFF"):
        data = stored(two_halves(), kind)
        for at in range(0, len(data), max(1, len(data) // 60)):
            damaged = bytes(data[:at]) + bytes([data[at] ^ 0xFF]) + bytes(data[at + 1 :])
            with contextlib.suppress(PictureError):
                assert open_picture(damaged).mode == "RGB"


def test_dark_sixteen_bit_pictures_are_dark_in_either_byte_order() -> None:
    levels = []
    for order in ("<u2", ">u2"):
        stream = io.BytesIO()
        mode = "I;16" if order == "<u2" else "I;16B"
        Image.frombytes(mode, (4, 4), np.full((4, 4), 200, order).tobytes()).save(stream, "TIFF")
        levels.append(np.asarray(open_picture(stream.getvalue())).max())
    assert levels == [1, 1]
