"""One picture, whichever way it comes to the studio: as bytes, as a file, by the page's field or by an endpoint."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import torch
from gradio.utils import get_upload_folder
from orientations import STORED
from PIL import Image

from models import StudioError, open_picture
from studio.api import uploaded
from studio.comparison import looked, view_value
from studio.examples import picture_token
from studio.service import Service
from studio.strip import no_map, strip_over, strip_value
from studio.upload import Upload
from studio.uploads import picture_field, read_upload

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> Path:
    """A folder of this test within the one that uploads come to."""
    folder = Path(get_upload_folder()) / request.node.name.translate(str.maketrans("[]", "__"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def by_the_field(file: Path) -> Upload:
    with gr.Blocks():
        field = picture_field()
    upload = field.preprocess(SimpleNamespace(path=str(file)))  # pyright: ignore[reportArgumentType]
    assert isinstance(upload, Upload)
    return upload


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_turned_photo_is_the_same_picture_and_the_same_maps_by_every_route(
    folder: Path, service: Service, kind: str
) -> None:
    scene = np.zeros((40, 80, 3), np.uint8)
    scene[:, :40, 0], scene[:, 40:, 2] = 255, 255
    embeddings = []
    for orientation, turn in STORED.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        image = Image.fromarray(scene)
        file = folder / f"{orientation}.{kind.lower()}"
        (image if turn is None else image.transpose(turn)).save(file, kind, exif=exif, subsampling=0, quality=98)
        routes = {
            "bytes": open_picture(file.read_bytes()),
            "file": open_picture(file),
            "field": by_the_field(file).image,
            "endpoint": uploaded({"path": str(file)}).image,
        }
        assert {picture.size for picture in routes.values()} == {(80, 40)}
        assert len({picture_token(picture) for picture in routes.values()}) == 1, orientation
        shown = np.asarray(routes["field"]).astype(int)
        assert np.abs(shown - scene)[:, [0, 10, 30, 50, 70, 79]].max() <= 8, "red on the left, blue on the right"
        embeddings.append(service.look("diffclip-scenes", routes["field"]).embedding)
    for embedding in embeddings[1:]:
        assert torch.allclose(embedding, embeddings[0], atol=2e-2 if kind == "JPEG" else 1e-6)


def test_the_same_pixels_under_another_name_and_format_are_the_same_picture(folder: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (30, 50, 3), dtype=np.uint8)
    files = [folder / name for name in ("a.png", "b.bmp", "c.tiff", "picture named.jpg")]
    for file, kind in zip(files, ("PNG", "BMP", "TIFF", "PNG"), strict=True):
        Image.fromarray(pixels).save(file, kind)
    assert len({by_the_field(file).token for file in files}) == 1


def test_what_a_person_sees_is_what_the_model_saw_where_the_file_is_transparent(folder: Path, service: Service) -> None:
    canvas = np.zeros((64, 64, 4), np.uint8)
    canvas[..., 0] = canvas[..., 2] = 255  # hidden under transparent pixels
    canvas[16:48, 16:48] = (0, 255, 0, 255)
    Image.fromarray(canvas).save(folder / "hidden.png")
    on_white = canvas.copy()
    on_white[canvas[..., 3] == 0] = 255
    Image.fromarray(on_white[..., :3]).save(folder / "white.png")
    hidden, white = (by_the_field(folder / name) for name in ("hidden.png", "white.png"))
    assert hidden.token == white.token
    looks = [service.look("clip-scenes", upload.image).embedding for upload in (hidden, white)]
    assert torch.equal(*looks)


def test_a_panorama_keeps_its_aspect_and_its_ends_are_marked_as_unseen(folder: Path, service: Service) -> None:
    pixels = np.repeat(np.linspace(0, 255, 8000, dtype=np.uint8)[None, :, None], 200, 0).repeat(3, 2)
    pixels[:, :200], pixels[:, -200:] = (255, 0, 0), (0, 0, 255)
    Image.fromarray(pixels).save(folder / "panorama.png")
    upload = read_upload(str(folder / "panorama.png"), folder)
    looks, missing = looked(service, upload, "clip-scenes", "diffclip-scenes", ())
    value = view_value(service, upload, looks, missing)
    strip = strip_value(strip_over(upload.image, [no_map("none", "x", looks[0].geometry, "")], ""))
    geometry = looks[0].geometry
    assert geometry.resized[1] == 40 * geometry.resized[0]
    assert geometry.seen_box == pytest.approx((0, 3900, 200, 4100))
    seen = np.isfinite(geometry.to_original(np.ones((4, 4)))).any(0)
    assert np.flatnonzero(seen).tolist() == list(range(3900, 4100))
    for shown in (value, strip):
        assert shown["width"] == 3 * shown["height"], "the part around what the models saw, not squeezed"
    for side in value["sides"].values():
        assert side["box"] == pytest.approx((0, 1 / 3, 1, 2 / 3), abs=0.005)
    assert value["note"].startswith("The picture is 8000 × 200 pixels; shown are the 600 × 200 around")


# The peak of a process does not sink again, so it is measured in one that does nothing else, after a small picture has
# taken what any picture takes.
PEAK = """
import sys
from pathlib import Path
from studio.comparison import looked, view_value
from studio.service import Service
from studio.strip import no_map, strip_over, strip_value
from studio.uploads import read_upload

folder, *files = map(Path, sys.argv[1:4])
service = Service(sys.argv[4:], ())

def peak():
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

for file in files:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = peak()
    upload = read_upload(str(file), folder)
    looks, missing = looked(service, upload, "clip-scenes", "diffclip-scenes", ())
    view_value(service, upload, looks, missing)
    strip_value(strip_over(upload.image, [no_map("none", "x", looks[0].geometry, "")], ""))
print("grown", peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="a process's peak is read from Linux's /proc")
def test_a_panorama_is_looked_at_in_bounded_memory(folder: Path, folders: tuple[Path, Path]) -> None:
    files = [folder / "small.png", folder / "panorama.png"]
    for file, size in zip(files, ((64, 64), (8000, 200)), strict=True):
        Image.effect_noise(size, 80).convert("RGB").save(file)
    command = [sys.executable, "-c", PEAK, str(folder), *map(str, files), *map(str, folders)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    grown = float(done.stdout.split()[-1])
    print(f"{grown:.0f} MB for a picture of 5 MB")
    assert 0 < grown < 100


def test_a_strip_that_would_be_blown_up_without_bound_is_refused(folder: Path) -> None:
    for size in ((20000, 2), (2, 20000)):
        Image.new("RGB", size).save(folder / "strip.png")
        with pytest.raises(StudioError, match="10000 times longer than it is wide"):
            read_upload(str(folder / "strip.png"), folder)
