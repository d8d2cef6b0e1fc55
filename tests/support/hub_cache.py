"""Repositories laid out by hand in a Hub cache, as a download would have left them."""

from pathlib import Path


def lay_out(hub: Path, repository: str, commit: str = "0" * 40, branch: str = "main") -> Path:
    """The folder of a snapshot in the cache's layout."""
    root = hub / f"models--{repository.replace('/', '--')}"
    snapshot = root / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (root / "refs").mkdir(exist_ok=True)
    (root / "refs" / branch).write_text(commit)
    return snapshot
