"""Where a figure comes from: models as they were found, versions of packages."""

import re
import sys
import tomllib
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from models import LoadedModel
from models.zoo import OPEN_CLIP, SHIPPED
from studio.recipe import Found

# Captum makes the maps of Explain.
_PACKAGES = ("torch", "torchvision", "open_clip_torch", "timm", "captum", "numpy", "pillow")
_OWN = "diffclip-studio"
_PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
# The cache of the Hub keeps repository and revision in the path: models--org--name/snapshots/<commit>/<file>.
_HUB_CACHE = re.compile(r"models--(?P<name>[^/]+)/snapshots/(?P<revision>[0-9a-f]+)")


def model_found(name: str, model: LoadedModel, sha256: str) -> Found:
    """A loaded model as a recipe keeps it, under the name that the panels use, with the hash of its weights."""
    return Found(
        name,
        model.title,
        source_of(model),
        model.origin.family,
        sha256,
        model.preprocess_settings,
        model.vision.lambdas(),
        model.origin.assumed,
        model.origin.given,
        model.origin.overrides,
    )


def source_of(model: LoadedModel) -> str:
    """What `load_model` takes to load it anywhere, or "" for a file that somebody brought: its path is theirs alone."""
    path = model.origin.path
    if path.resolve().parent == SHIPPED.resolve():
        return path.name
    cached = _HUB_CACHE.search(path.as_posix())
    if cached is None:
        return ""
    # With one slash it names a tag of open_clip's list, which tells the architecture; with more it is a person's path.
    if model.origin.source.startswith(OPEN_CLIP) and model.origin.source.count("/") == 1:
        return model.origin.source
    return f"hf-hub:{cached['name'].replace('--', '/')}@{cached['revision']}"


def _own_version() -> list[tuple[str, str]]:
    """This project's version: as its own file says, which lies beside the program, or as it was installed."""
    try:
        return [(_OWN, str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"]))]
    except (OSError, ValueError, KeyError):
        pass
    try:
        return [(_OWN, version(_OWN))]
    except PackageNotFoundError:
        return []


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("python", sys.version.split()[0]), *_own_version()]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def package_versions() -> dict[str, str]:
    """Versions of what numbers and pixels depend on."""
    return dict(_versions())
