"""What a page may open is decided on the server, and what is refused tells nothing about the machine."""

import re
from pathlib import Path

import gradio as gr
import pytest

from models import StudioError, available_models
from studio.bring import bring_files, bring_named
from studio.public import ALLOWED, OPEN_CLIP, PUBLIC_VARIABLE, ROOTS_VARIABLE, Policy, policy_of
from studio.service import Service
from studio.ui import build_app, launch_settings


def refusal(policy: Policy, text: str) -> str:
    with pytest.raises(StudioError) as caught:
        policy.reference(text)
    return re.sub(r"'.*?'|\".*?\"", "…", str(caught.value), count=1)


@pytest.mark.parametrize(
    ("environment", "public"),
    [
        ({}, False),
        ({PUBLIC_VARIABLE: "1"}, True),
        ({PUBLIC_VARIABLE: "on"}, True),
        ({PUBLIC_VARIABLE: "0"}, False),
        ({PUBLIC_VARIABLE: "maybe"}, True),
        ({"SPACE_ID": "someone/studio"}, True),
        ({"SPACE_ID": "someone/studio", PUBLIC_VARIABLE: "0"}, False),
        ({"SPACE_ID": "someone/studio", PUBLIC_VARIABLE: " "}, True),
    ],
)
def test_a_space_is_public_unless_it_says_otherwise(environment: dict[str, str], public: bool) -> None:
    assert policy_of(environment).public is public


def test_every_allowed_repository_is_pinned_to_a_whole_commit() -> None:
    assert ALLOWED
    for entry in ALLOWED:
        assert re.fullmatch(r"[0-9a-f]{40}", entry.revision)
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry.repository)
    assert len({entry.repository for entry in ALLOWED}) == len(ALLOWED)


def test_in_public_a_listed_repository_is_loaded_at_its_pinned_commit_however_it_is_named() -> None:
    policy, entry = Policy(True), ALLOWED[0]
    for text in (entry.repository, f"hf-hub:{entry.repository}", entry.reference, f"  {entry.repository} "):
        assert policy.reference(text) == f"hf-hub:{entry.repository}@{entry.revision}"
    for name in available_models():
        assert policy.reference(name) == name


def test_in_public_nothing_else_is_opened_and_every_refusal_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "there.pt").write_bytes(b"x")
    policy, entry = Policy(True, roots=(tmp_path,)), ALLOWED[0]
    texts = [
        "/etc/passwd",
        "/etc/nothing",
        str(tmp_path),
        str(tmp_path / "there.pt"),
        "there.pt",
        "../..",
        "~/.ssh/id_rsa",
        f"hf-hub:{entry.repository}@main",
        f"hf-hub:{entry.repository}@{'0' * 40}",
        "hf-hub:someone/else",
        "open_clip:ViT-B-16/openai",
        f"open_clip:ViT-B-16/{tmp_path / 'there.pt'}",
        "clip-scenes/../clip-scenes",
        "x\0y",
    ]
    assert len({refusal(policy, text) for text in texts}) == 1
    for act in (policy.check_uploads, lambda: policy.path(str(tmp_path))):
        with pytest.raises(StudioError, match="This page is public"):
            act()


def test_of_paths_only_what_lies_under_a_root_is_opened_and_refusals_do_not_tell_what_exists(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        (folder / "run").mkdir(parents=True)
        (folder / "weights.pt").write_bytes(b"x")
    (inside / "link.pt").symlink_to(outside / "weights.pt")
    policy = Policy(False, roots=(inside,))
    assert policy.reference(str(inside / "weights.pt")) == str(inside / "weights.pt")
    assert policy.path("run") == inside / "run"
    assert policy.reference(f"{OPEN_CLIP}ViT-B-16/{inside / 'weights.pt'}").endswith(str(inside / "weights.pt"))
    refused = [
        str(outside / "weights.pt"),
        str(outside / "none.pt"),
        str(inside / "none.pt"),
        str(inside / "link.pt"),
        "../outside/run",
        "/etc/passwd",
        "/etc",
        "~/.ssh/id_rsa",
        "~nobody-of-that-name/x",
        "x\0y",
        "a" * 5000,
    ]
    refused += [f"{OPEN_CLIP}ViT-B-16/{outside / name}" for name in ("weights.pt", "none.pt")]
    assert len({refusal(policy, text) for text in refused}) == 1


def test_the_roots_come_from_the_environment_as_a_path_does(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert policy_of({ROOTS_VARIABLE: f"{one}:{two}"}).roots == (one, two)
    assert policy_of({}).roots == (Path.cwd(),)
    assert policy_of({PUBLIC_VARIABLE: "1", ROOTS_VARIABLE: str(one)}).roots == ()


def test_names_of_the_hub_and_of_open_clips_list_pass_where_the_page_is_not_public() -> None:
    policy = Policy(False)
    for text in ("hf-hub:someone/thing@v1", "open_clip:ViT-B-16/openai", "clip-scenes"):
        assert policy.reference(text) == text
    with pytest.raises(StudioError, match=re.escape("Did you mean clip-scenes?")):
        policy.reference("clip-scene")
    for text in ("someone/thing", "https://huggingface.co/someone/thing", "http://huggingface.co/someone/thing/"):
        with pytest.raises(StudioError, match=re.escape("Did you mean hf-hub:someone/thing?")):
            policy.reference(text)
    for text in ("ViT-B-16", "../thing", "https://huggingface.co/someone", "https://elsewhere.org/someone/thing"):
        with pytest.raises(StudioError, match=re.escape("is named hf-hub:organisation/name")):
            policy.reference(text)
    with pytest.raises(StudioError, match="No model is named"):
        policy.reference("  ")


@pytest.mark.parametrize("variable", ["SPACE_ID", PUBLIC_VARIABLE])
def test_a_page_without_a_policy_of_its_own_is_public_where_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path], variable: str
) -> None:
    for name in ("SPACE_ID", PUBLIC_VARIABLE, ROOTS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    own = launch_settings()["max_file_size"]
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv(ROOTS_VARIABLE, str(folders[0].parent))
    service = Service(folders, ())
    for text in ("/etc/passwd", str(folders[0]), f"{folders[0].name}/..", "hf-hub:someone/else", "open_clip:x/y"):
        with pytest.raises(StudioError, match="This page is public"):
            list(bring_named(service, text))
    with pytest.raises(StudioError, match="This page is public"):
        list(bring_files(service, [folders[0] / "model.safetensors"]))
    assert service.registry.names == [folder.name for folder in folders]
    assert launch_settings()["max_file_size"] < own
    demo = build_app(folders)
    shown = {block.elem_id: block.visible for block in demo.blocks.values() if isinstance(block, gr.File)}
    assert shown["bring-files"] is False
