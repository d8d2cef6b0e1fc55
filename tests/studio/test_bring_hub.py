"""Names of the Hub and of open_clip's list, given to the field of the page: loaded from the cache, told, refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import open_clip
import pytest
from hub_cache import lay_out
from raw_requests import Served, event_named, run_event
from safetensors.torch import save_file

from models import LoadedModel, load_model
from models.checkpoints import export_checkpoint
from models.open_clip_zoo import architecture, build_open_clip
from studio.bring import recognised
from studio.bring_field import bring_field
from studio.examples import Example
from studio.public import ALLOWED, Policy
from studio.service import Service

# An architecture and a tag as open_clip's own list holds them, small.
ARCHITECTURE, TAG, REPOSITORY = "ViT-Ti-8", "own", "someone/vit-ti-8"
CONFIG: dict[str, Any] = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 16},
    "text_cfg": {"context_length": 12, "vocab_size": 40, "width": 32, "heads": 2, "layers": 2},
}
HUB_NAME, OPEN_CLIP_NAME = "hf-hub:someone/diffclip-tiny", f"open_clip:{ARCHITECTURE}/{TAG}"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, diffclip: LoadedModel) -> Path:
    """A cache that holds a repository of ours and the weights of a tag of open_clip; no network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    snapshot = lay_out(tmp_path / "hub", HUB_NAME.removeprefix("hf-hub:"))
    snapshot.rmdir()
    export_checkpoint(diffclip, snapshot)
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, ARCHITECTURE, CONFIG)
    tag = {"hf_hub": f"{REPOSITORY}/", "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, ARCHITECTURE, {TAG: tag})
    state = {key: value.contiguous() for key, value in build_open_clip(architecture(ARCHITECTURE)).state_dict().items()}
    save_file(state, lay_out(tmp_path / "hub", REPOSITORY) / "open_clip_model.safetensors")
    return tmp_path / "hub"


def brought(demo: gr.Blocks, address: str, name: str) -> tuple[list[Any], list[Any]]:
    """What the list of brought models and both model fields are given first and last, by the page's own handler."""
    sent = [name, None, "", "clip-scenes", "diffclip-scenes", None]
    said = run_event(address, event_named(demo, "bring_model"), sent)
    messages = [json.loads(text.removeprefix("data:")) for text in said]
    steps = [each["output"]["data"] for each in messages if each["msg"] in ("process_generating", "process_completed")]
    return steps[0], steps[-1]


@pytest.mark.parametrize("name", [HUB_NAME, OPEN_CLIP_NAME])
def test_a_name_of_the_hub_or_of_open_clip_is_loaded_chosen_and_what_was_recognised_is_shown(
    served: Served, hub: Path, name: str
) -> None:
    first, (shown, left, right) = brought(served.demo, served.address, name)
    assert (first[0]["said"], first[0]["state"]) == (f"Loading {name} …", "busy")
    model = load_model(name)
    assert (shown["said"], shown["state"]) == (f"{model.title} is loaded.", "")
    assert [tuple(row) for row in json.loads(shown["models"][0]["rows"])] == recognised(model)
    assert dict(recognised(model))["recognised as"] in ("DiffCLIP Studio", f"open_clip, {ARCHITECTURE}")
    assert str(hub) not in json.dumps(shown)
    assert (left["value"], right["value"]) == (name, "diffclip-scenes")
    assert [model.title, name] in left["choices"]


@pytest.fixture(scope="module")
def public(folders: tuple[Path, Path], examples: tuple[Example, ...]) -> Iterator[Served]:
    """A public page that has the same field."""
    service = Service(folders, examples, policy=Policy(True))
    with gr.Blocks(analytics_enabled=False) as demo:
        left, right = (gr.Dropdown([folder.name for folder in folders]) for _ in range(2))
        bring_field(service, left, right)
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield Served(demo, address)
    demo.close()


@pytest.mark.parametrize("name", [HUB_NAME, HUB_NAME.removeprefix("hf-hub:"), f"{HUB_NAME}@main", OPEN_CLIP_NAME])
def test_in_public_a_name_that_is_not_on_the_list_is_refused_although_it_is_in_the_cache(
    public: Served, hub: Path, name: str
) -> None:
    _, (shown, left, right) = brought(public.demo, public.address, name)
    assert shown["state"] == "failed"
    assert shown["said"].startswith(f"This page is public and {name!r} is not on its list: choose one of ")
    assert all(entry.repository in shown["said"] for entry in ALLOWED)
    assert shown["models"] == []
    assert "value" not in {**left, **right}
