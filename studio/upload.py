"""A picture that was given to the page, as what runs models takes it; its field is in `studio.uploads`."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image

from studio.examples import picture_token


@dataclass(frozen=True)
class Upload:
    """A picture that was given to the page: upright RGB, and the uploaded file it was read from."""

    image: Image.Image
    file: Path

    @cached_property
    def token(self) -> str:
        """A name for the pixels; worked out once, since for a large picture it takes a while."""
        return picture_token(self.image)
