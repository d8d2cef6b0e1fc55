"""Data flows one way: app -> studio -> models <- train; libraries stay where they belong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "models": {"studio", "train", "gradio", "plotly", "cv2", "captum"},
    "train": {"studio", "gradio", "plotly", "cv2", "captum", "timm", "entmax", "open_clip"},
    "studio": {"train", "timm", "entmax", "open_clip"},
}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_no_file_imports_against_the_direction(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    wrong = {str(path.relative_to(ROOT)): imported(path) & FORBIDDEN[package] for path in files}
    assert not {path: names for path, names in wrong.items() if names}


def test_every_file_is_short_enough_to_be_read_at_once() -> None:
    files = [
        p for name in ("models", "studio", "train", "tests", "benchmarks") for p in (ROOT / name).rglob("*.[pj][ys]")
    ]
    assert len(files) > 40
    assert {str(p): n for p in files if (n := len(p.read_text(encoding="utf-8").splitlines())) > 400} == {}


@pytest.mark.parametrize("module", ["models", "studio.redraw_tab, studio.redraw, studio.batch"])
def test_models_and_the_commands_work_without_the_libraries_of_the_page(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('gradio', 'plotly', 'cv2', 'captum') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
