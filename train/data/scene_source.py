"""Scenes as a source: nothing on disk, sample i is scene first + i of a seed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from PIL import Image

from models.errors import StudioError
from train.data.config import SceneData
from train.data.sample import Reason, Sample, Skip
from train.scenes import SceneOptions, describe_scene, render_scene
from train.scenes.render import LARGEST, SMALLEST


@dataclass(frozen=True)
class SceneSource:
    """Scenes drawn at `size` pixels a side.

    Raises:
        StudioError: scenes cannot be drawn at this size, or their weights say nothing.
    """

    data: SceneData
    size: int

    def __post_init__(self) -> None:
        if not SMALLEST <= self.size <= LARGEST:
            raise StudioError(f"Scenes cannot be drawn at {self.size} pixels: use {SMALLEST} to {LARGEST}.")
        SceneOptions(weights=self.data.weights)

    def __len__(self) -> int:
        return self.data.count

    def read(self, index: int, least_side: int = 0) -> Sample | Skip:
        """Scene first + `index`, always readable; `least_side` means nothing to it."""
        number = self.data.first + index
        scene = describe_scene(self.data.scenes, number, SceneOptions(weights=self.data.weights))
        picture = Image.fromarray(render_scene(scene, self.size)[0])
        return Sample(picture, (scene.caption,))

    @property
    def left_out(self) -> Mapping[Reason, int]:
        """Nothing."""
        return {}

    @property
    def examples(self) -> tuple[Skip, ...]:
        """Nothing is left out."""
        return ()

    def fingerprint(self) -> str:
        """Over the settings and the size; not over the drawing code."""
        plain = json.dumps({**asdict(self.data), "size": self.size}, sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()

    def describe(self) -> str:
        """What it is, in one line."""
        last = self.data.first + self.data.count - 1
        return f"scenes {self.data.first:,} to {last:,} of seed {self.data.scenes}, drawn at {self.size} pixels"
