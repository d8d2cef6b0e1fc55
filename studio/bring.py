"""A model that a person names or sends -> a model of the page, with what was recognised told on the way.

Loading happens in a thread of its own: the page hears of it every half second, and nobody who works with another model
waits for it. One model is loaded at a time, which bounds the memory that loading takes.
"""

import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from models import LoadedModel, StudioError, load_model
from models.checkpoints import CONFIG, WEIGHTS
from models.description import describe
from models.files.weights import Limits, read_weights
from models.overrides import Overrides
from models.plain import from_plain
from studio.public import Policy
from studio.registry import Entry
from studio.service import Service, weights_sha256

KINDS = (".safetensors", ".pt", ".pth", ".bin")
BESIDE = (".json",)  # the config and tokenizer of a checkpoint folder
_MIB = 2**20
_TOLD_EVERY = 0.5
_DIGITS = 8  # of a SHA-256, enough to tell a person's models apart
# An upload comes from anyone who can open the page; the largest model people look at here is a ViT-L in float32.
UPLOAD_LIMITS = Limits(total_bytes=8 * 2**30, header_bytes=16 * _MIB, tensors=20_000, entries=100_000)
_JSON_BYTES = 64 * _MIB
_PATH = re.compile(r"(?:^|[\s(])/[\w.-]+/")
_PAIRS = re.compile(r"[\n;]+")
# One at a time over all pages of this process.
_TURN = threading.Lock()
# What `describe` tells that is no person's business on a page: where on the server the file lies.
_UNTOLD = ("name", "title", "read from")


@dataclass(frozen=True)
class Stage:
    """How far it is.

    Attributes:
        said: a sentence on what happens now or has happened.
        name: of the model, once it is there.
    """

    said: str
    name: str = ""


def settings_of(text: str) -> dict[str, Any]:
    """Settings as people write them, "lambda_init = 0.8; heads = 12, 8" -> what `models.load_model` takes.

    Raises:
        StudioError: a part without "=", an unknown key or a value of the wrong type; the nearest key is named.
    """
    settings: dict[str, Any] = {}
    for part in filter(None, map(str.strip, _PAIRS.split(text))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise StudioError(f"{part[:80]!r} is no setting: write name = value, with ; or a new line between several.")
        if key in settings:
            raise StudioError(f"{key!r} is given twice: keep one of them.")
        values = [_value(piece) for piece in re.split(r"[,\s]+", value.strip("()[]")) if piece]
        settings[key] = values[0] if len(values) == 1 else tuple(values)
    from_plain(Overrides, settings, "settings")
    return settings


def _value(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("\"'")


def bring_named(service: Service, reference: str, settings: str = "") -> Iterator[Stage]:
    """Load what a person named, and say how far it is; the last stage has the model's name.

    The name is the reference with the settings, so the same question gives the same model.

    Raises:
        StudioError: it may not be opened here, cannot be loaded, or is too large.
    """
    source, given = service.policy.reference(reference), settings_of(settings)
    name = _named(source, given)
    if service.registry.held(name) is not None:
        yield Stage(f"{service.title(name)} is there already.", name)
        return
    if name in service.names:
        service.model(name)
        yield Stage(f"{service.title(name)} is there.", name)
        return
    load = partial(_load, source, given, name)
    shown = reference.strip()[:80]
    model = yield from _waited(partial(_guarded, load, service.policy, {}), f"Loading {shown}")
    model = _distinct(service, model, "")
    path = model.origin.path
    local = path if path.is_dir() else path.parent
    # The log of a run tells nothing of weights that are read with another lambda_init.
    apart = service.policy.public or source.startswith("hf-hub:") or "lambda_init" in given
    folder = None if apart else local
    service.registry.bring(name, Entry(model.title, folder, partial(_load_as, load, model.title)), model)
    yield Stage(f"{model.title} is loaded.", name)


def bring_files(service: Service, files: Sequence[Path], settings: str = "") -> Iterator[Stage]:
    """Load an uploaded weight file, or the files of a checkpoint folder, under a name that nobody can guess.

    Raises:
        StudioError: the page takes no checkpoints, they are none, need code to be opened, or are too large.
    """
    service.policy.check_uploads()
    given = settings_of(settings)
    weights = [file for file in files if file.suffix.lower() in KINDS]
    if len(weights) != 1:
        raise StudioError(
            f"{len(weights)} weight files were given: choose one ({', '.join(KINDS)}), for a checkpoint folder "
            f"together with its {CONFIG} and its tokenizer."
        )
    if strange := [file.name for file in files if file.suffix.lower() not in (*KINDS, *BESIDE)]:
        raise StudioError(f"{strange[0]!r} belongs to no checkpoint: choose weights and the .json files beside them.")
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', weights[0].stem)[:40]}-{secrets.token_urlsafe(16)}"
    size = sum(file.stat().st_size for file in files)
    load = partial(_load_files, weights[0], files, given, name)
    shown = {str(file): file.name for file in files}
    model, sha256 = yield from _waited(
        partial(_guarded, load, service.policy, shown), f"Reading {weights[0].name}, {_megabytes(size)}"
    )
    model = _distinct(service, model, sha256)
    service.registry.bring(name, Entry(model.title, None, None, sha256), model)
    yield Stage(f"{model.title} is loaded.", name)


def bring_folder(service: Service, folder: Path, name: str, title: str) -> None:
    """Load a checkpoint folder that this server itself found, not one that a person named.

    Raises:
        StudioError: it is broken, or too large.
    """
    if service.registry.entry(name) is not None:
        service.model(name)
        return
    load = partial(_load, str(folder), {}, name)
    # Two runs of one title have steps of one title.
    model = _distinct(service, _guarded(partial(_load_as, load, title), service.policy, {}), "")
    service.registry.bring(name, Entry(model.title, folder, partial(_load_as, load, model.title)), model)


def _load_as(load: Callable[[], LoadedModel], title: str) -> LoadedModel:
    return replace(load(), title=title)


def _distinct(service: Service, model: LoadedModel, sha256: str) -> LoadedModel:
    """The model with a title that no other model has, so that panels and files tell which one they show.

    One that has the title of a model that everyone may choose says that it was brought. Two that were brought, as two
    steps of one run, differ in the first digits of their weights' SHA-256, as recipes have it; the same weights brought
    twice keep one title.
    """
    if model.title in {service.title(name) for name in service.names}:
        model = replace(model, title=f"{model.title} (brought)")
    other = service.registry.titled(model.title, model.name)
    if other is None:
        return model
    own = sha256 or weights_sha256(model)
    if other.sha256 == own:
        return model
    return replace(model, title=f"{model.title} · {own[:_DIGITS]}")


def recognised(model: LoadedModel) -> list[tuple[str, str]]:
    """(label, text) of what was found in a checkpoint, what was assumed and what was given; plain text."""
    return [(label, text) for label, text in describe(model).rows if label not in _UNTOLD]


def _named(source: str, settings: Mapping[str, Any]) -> str:
    """The name of what was loaded so: the same for the same source and settings."""
    words = (
        f"{key}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in sorted(settings.items())
    )
    return " ".join((source, *words))


def _load(source: str, settings: Mapping[str, Any], name: str) -> LoadedModel:
    return _titled(load_model(_checkpoint_in(source), **settings), name)


def _checkpoint_in(source: str) -> str:
    """The checkpoint that lies in a run's folder, or the source itself."""
    inside = Path(source) / "checkpoint"
    return str(inside) if "\0" not in source and (inside / CONFIG).is_file() else source


def _load_files(
    weights: Path, files: Sequence[Path], settings: Mapping[str, Any], name: str
) -> tuple[LoadedModel, str]:
    """The model, and the SHA-256 of its weights. Sizes are checked before a model of those sizes is built."""
    if large := [file.name for file in files if file != weights and file.stat().st_size > _JSON_BYTES]:
        raise StudioError(f"{large[0]!r} is larger than {_megabytes(_JSON_BYTES)}: it is no config and no tokenizer.")
    read_weights(weights, UPLOAD_LIMITS)
    if len(files) == 1:
        model = load_model(weights, **settings)
        return _titled(model, name), weights_sha256(model)
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as place:
        ours = any(file.name == CONFIG for file in files) and weights.suffix.lower() == ".safetensors"
        for file in files:
            # A browser may have saved the file under another name than the folder had for it.
            _linked(file, Path(place) / (WEIGHTS if ours and file == weights else file.name))
        model = load_model(place, **settings)
        sha256 = weights_sha256(model)
    model = replace(model, title=model.title.replace(Path(place).name, weights.stem))
    return _titled(model, name), sha256


def _linked(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def _titled(model: LoadedModel, name: str) -> LoadedModel:
    """The model under the page's name, with a title that tells it from the same weights read otherwise."""
    given = ", ".join(model.origin.given)
    return replace(model, name=name, title=f"{model.title} · {given}" if given else model.title)


def _guarded(load: Any, policy: Policy, shown: Mapping[str, str]) -> Any:
    """What `load` gives; sentences of errors name files as the person knows them, in public no place on the server.

    Raises:
        StudioError: `load` does.
    """
    with _TURN:
        try:
            return load()
        except StudioError as error:
            said = str(error)
            for path, name in shown.items():
                said = said.replace(path, name)
            if policy.public and _PATH.search(said):
                said = "This model cannot be loaded at the moment: choose another, or try again in some minutes."
            raise StudioError(said) from error
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "memory" in str(error):
                raise StudioError("There is not enough memory for this model here: choose a smaller one.") from error
            raise


def _waited(work: Any, doing: str) -> Iterator[Stage]:
    """Runs `work` in a thread and tells of the time it takes; gives what it returns."""
    pool = ThreadPoolExecutor(1, "bring")
    started = time.monotonic()
    future: Future[Any] = pool.submit(work)
    pool.shutdown(wait=False)
    while True:
        seconds = time.monotonic() - started
        yield Stage(f"{doing} · {seconds:.0f} s" if seconds >= 1 else f"{doing} …")
        try:
            return future.result(timeout=_TOLD_EVERY)
        except NotYet:
            if future.done():
                raise  # the work's own time-out, not ours


def _megabytes(size: int) -> str:
    return f"{size / _MIB:,.1f} MB" if size < 10 * _MIB else f"{size / _MIB:,.0f} MB"
