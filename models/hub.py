"""Files of Hugging Face repositories: from the local cache first, from the network where it is allowed.

Nothing is fetched that is not asked for by name. Without a network, and with the files not in the cache, the answer is
one sentence with the command that fetches them and the place where they belong.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

from models.errors import CheckpointError

SCHEME = "hf-hub:"
_REFERENCE = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True)
class Repository:
    """A repository of models on the Hub, at a revision.

    Attributes:
        name: "organisation/name".
        revision: branch, tag or commit, or None for the default branch.
    """

    name: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{SCHEME}{self.name}" + (f"@{self.revision}" if self.revision else "")


def repository(reference: str) -> Repository:
    """Read "hf-hub:org/repo[@rev]".

    Raises:
        CheckpointError: it is not written so, or not a name that the Hub allows.
    """
    match = _REFERENCE.fullmatch(reference.removeprefix(SCHEME))
    if match is not None and ".." not in reference:
        try:
            validate_repo_id(match["repository"])
        except HFValidationError as error:
            raise CheckpointError(f"{reference!r} is not a name that the Hub allows: {error}") from error
        return Repository(match["repository"], match["revision"])
    raise CheckpointError(
        f"{reference!r} is not a Hub repository: write hf-hub:organisation/name, with or without @revision."
    )


def cached(source: Repository, names: tuple[str, ...]) -> frozenset[str]:
    """Those of `names` that are in the local cache."""
    found = (name for name in names if _in_cache(source, name) is not None)
    return frozenset(found)


def listed(source: Repository) -> frozenset[str]:
    """Names of all files of the repository, from the network.

    Raises:
        CheckpointError: it does not exist, is closed, or cannot be reached.
    """
    try:
        return frozenset(huggingface_hub.HfApi().list_repo_files(source.name, revision=source.revision))
    except (GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise CheckpointError(_closed(source, error)) from error
    except Exception as error:  # what the HTTP library raises without a network differs from version to version
        raise CheckpointError(_offline(source, type(error).__name__)) from error


def fetch(source: Repository, name: str) -> Path:
    """A file of the repository as a local file.

    Raises:
        CheckpointError: there is no such file, it cannot be reached and is not in the cache, or it is closed.
    """
    there = _in_cache(source, name)
    if there is not None:
        return there
    try:
        return Path(huggingface_hub.hf_hub_download(source.name, name, revision=source.revision))
    except (GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise CheckpointError(_closed(source, error)) from error
    except Exception as error:  # as above; EntryNotFoundError is one of its many faces
        if isinstance(error, EntryNotFoundError) and not isinstance(error, FileNotFoundError):
            raise CheckpointError(f"{source} holds no {name}: choose another repository.") from error
        raise CheckpointError(_offline(source, type(error).__name__)) from error


def _in_cache(source: Repository, name: str) -> Path | None:
    there = huggingface_hub.try_to_load_from_cache(source.name, name, revision=source.revision)
    return Path(there) if isinstance(there, str) else None


def _closed(source: Repository, error: Exception) -> str:
    return (
        f"{source} cannot be opened ({type(error).__name__}): check its name and revision, and if it is private or "
        "gated, log in with `hf auth login`."
    )


def _offline(source: Repository, reason: str) -> str:
    """What to do without a network, with the exact command."""
    revision = f" --revision {source.revision}" if source.revision else ""
    folder = Path(constants.HF_HUB_CACHE) / f"models--{source.name.replace('/', '--')}"
    return (
        f"{source} is not in the cache as a whole and cannot be fetched ({reason}): where there is a network, run "
        f"`hf download {source.name}{revision}`, then copy {folder} to the same place here; or give the file's path."
    )
