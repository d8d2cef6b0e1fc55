"""The page as a configuration: what it opens, what it shares, what it leaves out."""

import re
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from studio.examples import FOLDER, PHOTOGRAPHS, load_examples, picture_token
from studio.looked_at import RUNS_MODEL
from studio.ui import build_app, launch_settings
from studio.upload import Upload
from studio.viewer import SCRIPTS

STUDIO = Path(__file__).resolve().parents[2] / "studio"


@pytest.fixture(scope="module")
def demo(folders: tuple[Path, Path]) -> gr.Blocks:
    return build_app(folders)


def test_no_connection_is_held_open_for_a_tab(demo: gr.Blocks) -> None:
    assert demo.get_config_file()["connect_heartbeat"] is False


def test_events_that_run_a_model_wait_for_each_other(demo: gr.Blocks) -> None:
    running = [
        fn for fn in demo.fns.values() if fn.fn and fn.name in ("compare", "show_scene", "rank_classes", "first_scene")
    ]
    assert len(running) >= 3
    assert {fn.concurrency_id for fn in running} == {RUNS_MODEL}
    assert {fn.concurrency_limit for fn in running} == {1}


def test_no_two_listeners_of_one_event_put_each_other_off(demo: gr.Blocks) -> None:
    """What Gradio puts off for one listener it starts anew for all of the event: two such never come to rest."""
    put_off: dict[tuple[object, str], list[str]] = {}
    for fn in demo.fns.values():
        for target, event in fn.targets:
            if fn.fn and target is not None and fn.trigger_mode == "always_last":
                put_off.setdefault((target, event), []).append(str(fn.name))
    assert put_off
    assert {event: names for event, names in put_off.items() if len(names) > 1} == {}


def components(demo: gr.Blocks) -> dict[str, int]:
    return {str(getattr(block, "label", "")): block._id for block in demo.blocks.values()}


def listeners(demo: gr.Blocks, label: str) -> list[Any]:
    """What is done when a component of this label changes, in the order in which Gradio does it."""
    target = (components(demo)[label], "change")
    return [fn for fn in demo.fns.values() if target in fn.targets]


def test_a_change_of_picture_or_models_is_heard_of_by_one_function_of_the_browser(demo: gr.Blocks) -> None:
    """Gradio lets the listeners of one event wait for each other: what has the server answer would hold up the rest."""
    heard = [listeners(demo, label) for label in ("Picture", "Left model", "Right model")]
    assert heard[0] == heard[1] == heard[2]
    assert [fn.fn for fn in heard[0]] == [None]
    told = listeners(demo, "What is chosen")
    assert len(told) > 5
    assert [fn.fn for fn in told if fn.fn] == []
    passed_on = {components(demo)[label] for label in ("Where it lies", "Names of the models")}
    assert {output._id for output in told[-1].outputs} == passed_on, "the lines say first what is old"
    for label in ("Where it lies", "Names of the models"):
        assert {fn.trigger_mode for fn in listeners(demo, label) if fn.fn} <= {"multiple"}, label


def test_picture_and_models_of_an_address_wait_for_no_model(demo: gr.Blocks) -> None:
    at = components(demo)
    opening = {fn.name: fn for fn in demo.fns.values() if fn.fn and "load" in [event for _, event in fn.targets]}
    assert {"open_page", "choose_models"} <= set(opening)
    fields = {at[label] for label in ("Picture", "Left model", "Right model")}
    assert {output._id for output in opening["choose_models"].outputs} == {at["Left model"], at["Right model"]}
    assert opening["choose_models"].queue is False
    assert fields.isdisjoint({output._id for output in opening["open_page"].outputs})


def test_without_models_the_page_says_what_to_do() -> None:
    texts = [block.value for block in build_app([]).blocks.values() if isinstance(block, gr.Markdown)]
    assert any("There is no trained model" in str(text) for text in texts)


def test_nothing_of_ours_names_another_host() -> None:
    files = [path for path in STUDIO.rglob("*") if path.suffix in (".py", ".js", ".css", ".html")]
    assert len(files) > 20
    for path in files:
        # The namespace of SVG is a name; nobody fetches it.
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn", text), path


def test_no_script_of_the_page_writes_markup() -> None:
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in (STUDIO / "viewer").glob("*.js")}
    assert {*SCRIPTS, "address", "strip", "matrix", "lambda_main", "take_button", "brought", "painter"} <= set(scripts)
    for name, script in scripts.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script), name


def test_the_server_tells_nobody_that_it_runs(demo: gr.Blocks) -> None:
    assert demo.analytics_enabled is False
    assert demo.get_config_file()["analytics_enabled"] is False


def test_only_example_scenes_can_be_read_beside_uploads() -> None:
    assert launch_settings()["allowed_paths"] == [str(FOLDER), str(PHOTOGRAPHS)]
    assert launch_settings()["enable_monitoring"] is False


def test_shipped_scenes_have_masks_of_their_own_size_and_different_pixels() -> None:
    examples = load_examples()
    assert len({example.token for example in examples}) == len(examples) >= 5
    for example in examples:
        assert example.inside().any()
        assert not example.inside().all()
        assert example.picture.is_file()


def test_a_token_names_pixels_and_not_files(tmp_path: Path) -> None:
    from PIL import Image

    image = Image.effect_noise((20, 30), 50).convert("RGB")
    image.save(tmp_path / "a.png")
    image.save(tmp_path / "b.bmp")
    again = [Image.open(tmp_path / name).convert("RGB") for name in ("a.png", "b.bmp")]
    assert {picture_token(each) for each in again} == {picture_token(image)}
    assert picture_token(image.transpose(Image.Transpose.ROTATE_90)) != picture_token(image)


def test_what_is_shown_is_not_settled_before_the_picture_of_the_address_is_in_its_field(
    demo: gr.Blocks, scene: Upload
) -> None:
    """An answer about the picture of before would come after the one that the address asked for, and stay."""
    settle = next(fn.fn for fn in demo.fns.values() if fn.name == "settle")
    assert settle is not None
    chosen = (scene, "clip-scenes", "diffclip-scenes", "cat", "a photo of a {}", {})
    for opened, linked, there in (("", "", ""), ("yes", scene.token, ""), ("", scene.token, scene.token)):
        assert settle(opened, linked, there, *chosen) == (gr.skip(),) * 3
    for token in ("", scene.token):
        assert settle("yes", token, token, *chosen)[0]["token"] == scene.token
