"""Files that a person sent to the page, checkpoints and logs, and no other file of this machine."""

from collections.abc import Sequence
from pathlib import Path

from gradio.utils import get_upload_folder

from models import StudioError


def sent_files(files: Sequence[object]) -> list[Path]:
    """The files of Gradio's upload folder that a file field names.

    Raises:
        StudioError: one lies elsewhere; the message does not tell whether it exists.
    """
    folder = Path(get_upload_folder()).resolve()
    try:
        paths = [Path(str(file)).resolve() for file in files]
        if all(path.is_relative_to(folder) and path.is_file() for path in paths):
            return paths
    except (OSError, ValueError):
        pass
    raise StudioError("That is not an uploaded file: choose one, or drop it on the field.")
