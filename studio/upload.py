"""A picture that was given to the page, as what runs models takes it, and those that were; fields are in `uploads`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image

from models import open_picture
from studio.examples import Example, picture_token
from studio.store import BoundedStore

PICTURE_BYTES = 128 * 2**20


@dataclass(frozen=True)
class Upload:
    """A picture that was given to the page: upright RGB, and the uploaded file it was read from."""

    image: Image.Image
    file: Path

    @cached_property
    def token(self) -> str:
        """A name for the pixels; worked out once, since for a large picture it takes a while."""
        return picture_token(self.image)


class PictureStore:
    """Pictures that can be named by a link: examples, and those that were looked at, as long as they are kept.

    A picture is named by a hash of its pixels: who knows the name has seen the picture.
    """

    def __init__(self, examples: Sequence[Example] = (), capacity: int = PICTURE_BYTES) -> None:
        self._examples = {example.token: example for example in examples}
        self._kept: BoundedStore[str, Upload] = BoundedStore(capacity)

    def keep(self, upload: Upload) -> None:
        """Keep a picture for later."""
        self._kept.put(upload.token, upload, 3 * upload.image.width * upload.image.height)

    def find(self, token: str) -> Upload | None:
        """The picture, with its file if that is still there."""
        upload = self._kept.get(token)
        if upload is not None and upload.file.is_file():
            return upload
        example = self._examples.get(token)
        return None if example is None else Upload(open_picture(example.picture), example.picture)
