"""An exported folder -> a repository of models on the Hugging Face Hub, from which `load_model` opens it."""

from pathlib import Path

from huggingface_hub import HfApi

# Of whichever HTTP library the client is built on: what has no answer is an error of that library alone.
from huggingface_hub.errors import HTTPError  # type: ignore[reportPrivateImportUsage]

from models.errors import StudioError
from models.hub import SCHEME, repository


def check_repository(name: str) -> str:
    """The name of a repository, "organisation/name", before anything is written.

    Raises:
        StudioError: it is not written so, or names a revision.
    """
    found = repository(name)
    if found.revision:
        raise StudioError(f"{name!r} names a revision, and a push goes to the default branch: write {found.name}.")
    return found.name


def push_folder(folder: Path, name: str, private: bool = False, api: HfApi | None = None) -> str:
    """Make the repository, if it is not there, and upload the folder's files in one commit.

    Args:
        folder: as `export_run` leaves it; it is only read.
        name: "organisation/name".
        private: of a repository that is made now; one that is there stays as it is.
        api: the Hub, and who asks; None takes the address and the token of the environment or of `hf auth login`.

    Returns:
        what `load_model` takes, "hf-hub:organisation/name".

    Raises:
        StudioError: no network, no token, or not allowed; says how to do it later.
    """
    name, hub = check_repository(name), api or HfApi()
    try:
        hub.create_repo(name, private=private, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=folder, commit_message="Export of a training run")
    except (HTTPError, OSError) as error:
        reason, flag = " ".join(str(error).split()), " --private" if private else ""
        raise StudioError(
            f"{folder} is whole but could not be pushed to {name} ({type(error).__name__}: {reason}): with a network, "
            f"log in with `hf auth login`, then run `hf upload {name} {folder}{flag}`."
        ) from error
    return f"{SCHEME}{name}"
