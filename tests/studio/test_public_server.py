"""A public page asked by raw requests, past its fields: nothing outside the list is loaded, no file is read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from raw_requests import ask, event_named, file_data, run_event

from studio.bring_field import bring_field
from studio.examples import Example
from studio.looked_at import choose_what_is_looked_at
from studio.public import Policy
from studio.service import Service
from studio.tabs.trajectories import trajectories_tab


@pytest.fixture(scope="module")
def page(folders: tuple[Path, Path], examples: tuple[Example, ...]) -> Iterator[tuple[str, gr.Blocks, Service]]:
    service = Service(folders, examples, policy=Policy(True, allowed=()))
    with gr.Blocks(analytics_enabled=False) as demo:
        looked_at = choose_what_is_looked_at(service, examples)
        with gr.Tabs(), gr.Tab("λ") as tab:
            trajectories_tab(looked_at, service, tab)
    _, address, _ = demo.launch(
        prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", show_error=False, enable_monitoring=False
    )
    yield address, demo, service
    demo.close()


def run(page: tuple[str, gr.Blocks, Service], name: str, data: list[Any]) -> list[str]:
    address, demo, _ = page
    return run_event(address, event_named(demo, name), data)


PATHS = ("/etc/passwd", "/etc/none", "..", "~/.ssh/id_rsa")


@pytest.mark.parametrize("path", PATHS)
def test_no_name_that_is_not_listed_is_loaded(page: tuple[str, gr.Blocks, Service], path: str) -> None:
    said = " ".join(run(page, "bring_model", [path, None, "", "clip-scenes", "diffclip-scenes", None]))
    assert "is loaded" not in said
    assert "root:" not in said
    assert page[2].registry.names == ["clip-scenes", "diffclip-scenes"]


def test_no_checkpoint_file_is_taken_with_or_without_meta(
    page: tuple[str, gr.Blocks, Service], folders: tuple[Path, Path]
) -> None:
    file = folders[1] / "model.safetensors"
    for sent in (file_data(file), {"path": str(file)}, {"path": "/etc/passwd"}):
        said = " ".join(run(page, "bring_model", [None, [sent], "", "clip-scenes", "diffclip-scenes", None]))
        assert "is loaded" not in said
        assert "root:" not in said


def test_what_is_allowed_is_answered(page: tuple[str, gr.Blocks, Service]) -> None:
    said = " ".join(run(page, "draw_lambdas", ["clip-scenes", "diffclip-scenes", [], None, ""]))
    assert '"samples"' in said
    assert "subtracted" in said


@pytest.mark.parametrize("path", PATHS)
def test_no_log_or_folder_outside_the_uploads_is_read(page: tuple[str, gr.Blocks, Service], path: str) -> None:
    for data in ([[{"path": path}], ""], [[file_data(path)], ""], [None, path]):
        said = " ".join(run(page, "draw_lambdas", ["clip-scenes", "clip-scenes", [], *data]))
        assert "root:" not in said
        assert '"samples"' not in said


def test_a_picture_of_the_server_is_not_read(page: tuple[str, gr.Blocks, Service], examples) -> None:
    address, demo, _ = page
    component = next(i for i, block in demo.blocks.items() if isinstance(block, gr.HTML))
    for body in ({"path": "/etc/passwd"}, [file_data("/etc/passwd")], "/etc/passwd"):
        status, said = ask(
            address,
            "gradio_api/component_server",
            {"data": body, "component_id": component, "fn_name": "get_layer", "session_hash": "raw"},
        )
        assert status >= 400
        assert "root:" not in said
    for path in ("/etc/passwd", str(examples[0].mask), str(Path(__file__))):
        assert ask(address, f"gradio_api/file={path}")[0] in (403, 404)


def test_the_pages_configuration_and_its_description_answer(page: tuple[str, gr.Blocks, Service]) -> None:
    address, _, _ = page
    for path in ("config", "gradio_api/info", "gradio_api/info?all_endpoints=true"):
        status, said = ask(address, path)
        assert status == 200, path
        json.loads(said)


def test_a_public_page_shows_no_field_for_paths_and_files(folders, examples) -> None:
    for policy, shown in ((Policy(True), False), (Policy(False), True)):
        service = Service(folders, examples, policy=policy)
        with gr.Blocks(analytics_enabled=False) as demo:
            left = gr.Dropdown(["a"])
            bring_field(service, left, left)
        files = [block for block in demo.blocks.values() if isinstance(block, gr.File)]
        assert [file.visible for file in files] == [shown]
        names = [block for block in demo.blocks.values() if getattr(block, "elem_id", "") == "bring-name"]
        assert [isinstance(name, gr.Textbox) for name in names] == [shown]
