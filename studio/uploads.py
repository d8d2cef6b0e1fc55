"""A picture field that takes every picture file a person has, and no other file of this machine.

Gradio's own loading drops transparency, clips 16-bit pictures, and opens any path that a raw request names. So the
field gets a loader of ours: the file must lie in Gradio's upload folder and is read by `models.open_picture`.
"""

import atexit
import os
import shutil
import tempfile
from abc import ABCMeta
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder

from models import StudioError, open_picture
from studio.failures import told
from studio.upload import Upload


def own_folder() -> None:
    """Keep what this process is sent in a folder of its own, until it ends; one that GRADIO_TEMP_DIR names stays.

    Gradio has one folder for all apps of a person, where a file is named by its content, and an app that ends deletes
    what it has there. With it would go the scenes and uploads of another that still runs.
    """
    if not os.environ.get("GRADIO_TEMP_DIR"):
        folder = tempfile.mkdtemp(prefix="diffclip-studio-")
        os.environ["GRADIO_TEMP_DIR"] = folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def read_upload(path: str | None, folder: Path) -> Upload:
    """The picture in the file at `path`, which must lie inside the upload folder.

    Raises:
        StudioError: the path lies elsewhere (the message does not tell whether it exists), or `open_picture` refuses.
    """
    file = Path(path or "/").resolve()
    if not file.is_relative_to(folder.resolve()) or not file.is_file():
        raise StudioError(
            "That is not an uploaded picture, or it is no longer on the server: choose it again, or drop a file on the "
            "picture field."
        )
    return Upload(open_picture(file), file)


@told
def _load(_: gr.Image, payload: Any) -> Upload | None:
    """What Gradio's picture field sends -> `Upload`, or None when the field is empty."""
    return None if payload is None else read_upload(payload.path, Path(get_upload_folder()))


# Made past Gradio's metaclass, which writes a stub file next to the source of each subclass. It must be a class: where
# an answer changes the field, Gradio makes a new one of the same class, which would open any path again.
_Picture: Any = ABCMeta.__new__(type(gr.Image), "Image", (gr.Image,), {"preprocess": _load})


def picture_field(**settings: Any) -> gr.Image:
    """A `gr.Image` whose value reaches handlers as an `Upload`."""
    return _Picture(type="pil", sources=["upload", "clipboard"], buttons=["fullscreen"], **settings)


def emptied_if_unreadable(field: gr.Image) -> None:
    """Have a file that is no picture refused when it is given, and its place left empty, not when it is used."""
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    field.upload(_taken, field, None, **private).failure(None, None, field, js="() => null", **private)


def _taken(_: Upload | None) -> None:
    """The field's loader has read it, and refused what it could not."""
