"""What `hf upload` would publish, whether the Space's header holds, and whether its one resolve succeeds."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub.utils import filter_repo_objects
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
MIB = 2**20


def header() -> dict[str, str]:
    """The README's YAML header, which has one plain value a line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.match(r"---\n(.*?)\n---\n", text, re.S)
    assert block
    return dict(line.split(": ", 1) for line in block[1].splitlines())


def published() -> list[str]:
    """The files that the documented command uploads from this folder."""
    text = (ROOT / "docs/space.md").read_text(encoding="utf-8")
    words = shlex.split(next(line for line in text.splitlines() if line.startswith("hf upload ")))
    assert words[3:7] == [".", ".", "--repo-type", "space"]
    excluded = [words[at + 1] for at, word in enumerate(words) if word == "--exclude"]
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()]
    return list(filter_repo_objects(files, ignore_patterns=excluded))


def test_the_upload_holds_what_the_page_needs() -> None:
    files = set(published())
    needed = {"app.py", "README.md", "requirements.txt", "studio/ui.py", "studio/page.css", "models/zoo.py"}
    needed |= {f"assets/checkpoints/{name}/model.safetensors" for name in ("clip-scenes", "diffclip-scenes")}
    needed |= {"assets/examples/examples.json", "assets/photographs/photographs.json", "assets/ATTRIBUTION.md"}
    assert needed <= files
    for folder in ("studio", "models", "assets"):
        own = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {path for path in own if "__pycache__" not in path} <= files


def test_the_upload_holds_no_tests_no_runs_and_no_environment() -> None:
    files = published()
    folders = r"\.git|\.venv[^/]*|runs|tests|benchmarks|\.ci|\.gradio|\.\w+_cache"
    unwanted = rf"^({folders})/|__pycache__|\.pyc$|(^|/)state(-\d+)?(\.pt|/)"
    assert [path for path in files if re.search(unwanted, path)] == []
    assert not {path.split("/")[0] for path in files} - {
        *("app.py", "assets", "models", "studio", "train", "docs", "README.md", "LICENSE", "pyproject.toml"),
        *(
            "requirements.txt",
            "requirements-dev.txt",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            ".gitignore",
        ),
    }


def test_the_upload_is_small() -> None:
    sizes = {path: (ROOT / path).stat().st_size for path in published()}
    assert max(sizes.values()) < 10 * MIB
    assert sum(sizes.values()) < 60 * MIB  # four models, of one eight steps on its way


def test_the_header_is_one_that_the_hub_takes() -> None:
    said = header()
    assert said["sdk"] == "gradio"
    assert said["python_version"] == '"3.12"'
    assert (ROOT / said["app_file"]).is_file()
    assert len(said["short_description"]) <= 60
    ranges = [Requirement(line) for line in (ROOT / "requirements.txt").read_text().splitlines() if line[:1].isalpha()]
    gradio = next(one for one in ranges if one.name == "gradio")
    assert said["sdk_version"] in gradio.specifier
    assert all(one.specifier for one in ranges), "every requirement has bounds"


def oldest(requirements: str) -> list[str]:
    """A constraint for each requirement to the oldest release series that its lower bound lets in."""
    found = []
    for line in requirements.splitlines():
        if line[:1].isalpha():
            one = Requirement(line)
            (bound,) = (each.version for each in one.specifier if each.operator == ">=")
            found.append(f"{one.name}=={bound if '.' in bound else f'{bound}.0'}.*")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("end", ["newest", "oldest"])
def test_the_spaces_one_resolve_succeeds_on_python_3_12_at_both_ends(tmp_path: Path, end: str) -> None:
    extra = [f"gradio[oauth,mcp]=={header()['sdk_version']}", "uvicorn>=0.14.0", "websockets>=10.4", "spaces"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--python-version", "3.12"]
    command += ["--only-binary", ":all:", "--target", str(tmp_path), "-r", str(ROOT / "requirements.txt"), *extra]
    if end == "oldest":
        constraints = tmp_path / "oldest.txt"
        constraints.write_text("\n".join(oldest((ROOT / "requirements.txt").read_text())), encoding="utf-8")
        command += ["--constraint", str(constraints)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and re.search(r"No matching distribution found|ConnectionError", done.stderr):
        probe = [*command[:4], "--no-deps", "--dry-run", "--ignore-installed", "packaging"]
        if subprocess.run(probe, capture_output=True).returncode:
            pytest.skip("no package index can be reached from here")
    assert done.returncode == 0, done.stderr[-3000:]
