"""Names -> models. The shipped checkpoints are the folders under assets/checkpoints."""

from pathlib import Path

from models.checkpoints import CONFIG, load_checkpoint
from models.errors import CheckpointError
from models.loaded import LoadedModel
from models.plain import nearest

SHIPPED = Path(__file__).resolve().parent.parent / "assets" / "checkpoints"


def available_models() -> list[str]:
    """Names of the shipped models, sorted."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG}"))


def load_model(name: str | Path) -> LoadedModel:
    """Load a shipped model by name, or a checkpoint from a folder.

    Raises:
        CheckpointError: neither a known name nor a checkpoint folder, or the folder is broken.
    """
    if isinstance(name, str) and name in available_models():
        return load_checkpoint(SHIPPED / name, name)
    folder = Path(name)
    if folder.is_dir():
        return load_checkpoint(folder)
    known = available_models()
    raise CheckpointError(
        f"{str(name)!r} is neither a shipped model nor a checkpoint folder{nearest(name, known)}: "
        f"choose {', '.join(known) or 'a folder'}."
    )
