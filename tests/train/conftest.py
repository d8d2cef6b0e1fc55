"""A run that is small enough to finish in a test and real in everything else."""

from pathlib import Path

import pytest
from run_toml import TOML


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TOML)
    return path
