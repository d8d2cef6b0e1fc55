"""One picture, whichever way it comes to the studio: as bytes, as a file, by the page's field or by an endpoint."""

from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import torch
from gradio.utils import get_upload_folder
from orientations import STORED
from PIL import Image

from models import open_picture
from studio.api import uploaded
from studio.examples import picture_token
from studio.service import Service
from studio.uploads import Upload, picture_field


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
