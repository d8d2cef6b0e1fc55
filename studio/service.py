"""The only caller of models: has them loaded, and records what they do with a picture.

Running a model and reading its maps are apart. `look` runs it, from events that wait in one queue; its recordings are
kept in `looks`, where they can be read at any time, until they are let go to save memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image
from torch import Tensor

from models import LoadedModel, Recording, StudioError, available_models, load_model, record
from models.checkpoints import WEIGHTS, read_info
from models.files.weights import file_sha256
from models.geometry import ImageGeometry
from models.layout import TokenGrid
from models.localisation import patch_coverage
from models.zoo import SHIPPED
from studio.examples import Example, picture_token
from studio.kept_runs import KeptRuns, RunKey
from studio.measures import Objects, objects_of
from studio.public import Policy, policy_of
from studio.registry import Entry, Registry
from studio.result_store import ResultStore
from studio.store import BoundedStore
from studio.turns import Turns
from studio.upload import PictureStore

RECORDING_BYTES = 256 * 2**20
# Kept are inputs and outputs (2 D a token); a layer that is looked at adds Q, K and V (3 D).
_WITH_PROJECTIONS = 2.5


@dataclass(frozen=True)
class Look:
    """What one model did with one picture.

    Attributes:
        model: the model.
        recording: its vision tower's run.
        embedding: the picture's embedding (1, E) of length 1.
        geometry: where the patches lie on the picture.
        objects: which patches lie on an object, None for a picture without a mask.
    """

    model: LoadedModel
    recording: Recording
    embedding: Tensor
    geometry: ImageGeometry
    objects: Objects | None


class Service:
    """Models by name, and what they did with the pictures that were looked at last."""

    def __init__(
        self,
        models: Sequence[str | Path],
        examples: Sequence[Example],
        recording_bytes: int = RECORDING_BYTES,
        policy: Policy | None = None,
        model_bytes: int | None = None,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            models: names of shipped models or checkpoint folders.
            examples: those with a mask are known by their pixels.
            recording_bytes: how much is kept of what models did with pictures.
            policy: what may be brought; the environment decides if it is not given.
            model_bytes: how much is kept of models; as the policy says if it is not given.

        Raises:
            StudioError: two models have the same name.
        """
        self.policy = policy_of() if policy is None else policy
        self.registry = Registry(self.policy.model_bytes if model_bytes is None else model_bytes, self._forget)
        sources = {Path(source).name: source for source in models}
        if len(sources) < len(models):
            raise StudioError("Two of the models have the same name: rename one of the folders, so each can be chosen.")
        for name, source in sources.items():
            folder = SHIPPED / source if isinstance(source, str) and source in available_models() else Path(source)
            self.registry.start_with(name, Entry(_title(folder, name), folder, partial(load_model, source)))
        # The line in which long runs of all pages wait.
        self.turns = Turns()
        # Runs that were left before their end, for those who ask for the same again.
        self.kept = KeptRuns(self._looks_of)
        # What tabs show, for those who want to take it away.
        self.results = ResultStore()
        # Pictures that links name.
        self.pictures = PictureStore(examples)
        self._examples = {example.token: example for example in examples if example.mask is not None}
        self.looks: BoundedStore[tuple[str, str], Look] = BoundedStore(recording_bytes)
        self._followers: list[Callable[[str, str | None], None]] = []
        self._hashes: dict[Path, tuple[tuple[int, int], str]] = {}
        self._look_bytes: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """Names of the models that everyone may choose. What one person brought is told to nobody else."""
        return self.registry.names

    def knows(self, name: object) -> bool:
        """Whether a model of that name can be asked for, or could until it was let go."""
        return isinstance(name, str) and self.registry.entry(name) is not None

    def title(self, name: str) -> str:
        """How a person reads the model's name; the name itself where nothing else is known."""
        entry = self.registry.entry(name)
        return str(name) if entry is None else entry.title

    def folder(self, name: str) -> Path | None:
        """Where the model's checkpoint, its card and its log lie, or None for an upload and the Hub."""
        entry = self.registry.entry(name)
        return None if entry is None else entry.folder

    def model(self, name: str) -> LoadedModel:
        """The model of that name; it stays loaded until others need the room.

        Raises:
            StudioError: there is none of that name, its checkpoint is broken, or it was an upload and was let go.
        """
        return self.registry.model(name)

    def weights_sha256(self, name: str) -> str:
        """SHA-256 of the model's weights file, or "" where the file is out of reach.

        A large file takes seconds to read, so it is read again only when its size or its time of change is another.

        Raises:
            StudioError: there is no such model.
        """
        entry = self.registry.entry(name)
        if entry is not None and entry.sha256:
            return entry.sha256
        model = self.model(name)
        file = weights_file(model)
        if file is None:
            return ""
        stat = file.stat()
        stamp = stat.st_size, stat.st_mtime_ns
        known = self._hashes.get(file)
        if known is None or known[0] != stamp:
            known = self._hashes[file] = stamp, weights_sha256(model)
        return known[1]

    def example(self, token: str) -> Example | None:
        """The example scene with these pixels, if it is one."""
        return self._examples.get(token)

    def look(self, name: str, image: Image.Image) -> Look:
        """What the model does with a picture (upright RGB); it is run only if that is not known already."""
        token = picture_token(image)
        known = self.looks.get((name, token)) if isinstance(name, str) else None
        if known is not None:
            return known
        model = self.model(name)
        pixels, geometry = model.preprocess(image)
        with record(model.vision) as recording:
            embedding = model.encode_image(pixels[None], normalize=True)
        example = self.example(token)
        grid = vision_grid(model)
        objects = (
            None
            if example is None or example.mask is None
            else objects_of(patch_coverage(example.inside(), geometry, grid))
        )
        look = Look(model, recording, embedding, geometry, objects)
        size = self._look_bytes[name] = int(recording.nbytes * _WITH_PROJECTIONS)
        for gone in self.looks.put((name, token), look, size):
            self._tell(*gone)
        return look

    def follow(self, follower: Callable[[str, str | None], None]) -> None:
        """Have `follower` told what is let go, so that it lets go of what holds it too.

        It is given a model's name and the token of a picture whose look is gone, or None where the model is.
        """
        self._followers.append(follower)

    def _forget(self, name: str) -> None:
        """What a model did goes when the model goes, since it holds the weights too."""
        self.looks.drop(lambda key: key[0] == name)
        self.kept.forget(name)
        self._look_bytes.pop(name, None)
        self._tell(name, None)

    def _looks_of(self, key: RunKey) -> int:
        """Bytes of what models did with the picture of a run, which the run holds also when it was let go here."""
        return sum(self._look_bytes.get(name, 0) for name in dict.fromkeys(key.names))

    def _tell(self, name: str, token: str | None) -> None:
        for follower in self._followers:
            follower(name, token)


def weights_file(model: LoadedModel) -> Path | None:
    """The file that a model's weights were read from, or None where that is no longer there."""
    path = model.origin.path
    file = path if path.is_file() else path / WEIGHTS
    return file if file.is_file() else None


def weights_sha256(model: LoadedModel) -> str:
    """SHA-256 of the file that a model's weights were read from, or "" where that is no longer there."""
    file = weights_file(model)
    return "" if file is None else file_sha256(file)


def _title(folder: Path, name: str) -> str:
    """The title that a checkpoint's config gives, or the name where that cannot be read."""
    try:
        return read_info(folder).title
    except StudioError:
        return name


def vision_grid(model: LoadedModel) -> TokenGrid:
    """What the tokens of the vision tower are."""
    layout = model.vision.layout
    if not isinstance(layout, TokenGrid):
        raise StudioError(f"{model.title} has no grid of patches, so nothing can be laid over a picture.")
    return layout
