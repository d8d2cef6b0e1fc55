"""The tabs Intervene and Text as Gradio blocks: what runs a model waits its turn, and nothing is a public endpoint."""

import gradio as gr
import pytest

from studio.examples import Example
from studio.fields import MOST_LAYERS
from studio.looked_at import RUNS_LONG, RUNS_MODEL, choose_what_is_looked_at
from studio.service import Service
from studio.tabs.intervene import intervene_tab, need_other
from studio.tabs.text import text_tab
from studio.turns import MOST_IN_LINE
from studio.upload import Upload


@pytest.fixture
def demo(service: Service, examples: tuple[Example, ...]) -> gr.Blocks:
    with gr.Blocks(analytics_enabled=False) as demo:
        looked_at = choose_what_is_looked_at(service, examples)
        with gr.Tab("Intervene") as tab:
            intervene_tab(looked_at, service, tab, examples)
        with gr.Tab("Text") as tab:
            text_tab(looked_at, service, tab)
    return demo


def test_events_that_run_a_model_wait_for_each_other(demo: gr.Blocks) -> None:
    names = {"fill", "fill_again", "run_edits", "run_opened", "read"}
    running = [fn for fn in demo.fns.values() if fn.fn and fn.name in names]
    assert {fn.name for fn in running} == names
    assert {(fn.concurrency_id, fn.concurrency_limit) for fn in running} == {(RUNS_MODEL, 1)}


def test_a_sweep_waits_in_the_line_of_long_runs_and_not_for_short_ones(demo: gr.Blocks) -> None:
    running = [fn for fn in demo.fns.values() if fn.fn and fn.name == "sweep"]
    assert [(fn.concurrency_id, fn.concurrency_limit) for fn in running] == [(RUNS_LONG, MOST_IN_LINE)]


@pytest.mark.parametrize(("asked", "kept"), [("mean", "mean"), ("1", "1"), ("3", "3"), ("4", "mean"), (None, "mean")])
def test_the_chosen_head_stays_where_one_of_the_models_has_it(demo: gr.Blocks, asked: str | None, kept: str) -> None:
    fills = [fn for fn in demo.fns.values() if fn.fn and fn.name in ("fill", "fill_again")]
    assert len(fills) == 2, "the tab is opened, another model is chosen"
    for fill in fills:
        names = [getattr(block, "elem_id", None) for block in fill.inputs]
        assert names[-1] == "intervene-head"
        assert fill.fn is not None
        *_, layer, head = fill.fn("clip-scenes", "diffclip-scenes", None, None, 1.0, asked)
        assert layer.value == 1
        assert [name for name, _ in head.choices] == ["mean", "0", "1", "2", "3"]
        assert head.value == kept


def test_a_tab_that_was_not_opened_yet_is_not_filled_when_a_model_is_chosen(demo: gr.Blocks) -> None:
    """The answer would come after what the address sets meanwhile, and take its place."""
    again, fill = (next(fn.fn for fn in demo.fns.values() if fn.name == name) for name in ("fill_again", "fill"))
    names = ("clip-scenes", "diffclip-scenes")
    assert again(*names, None, None, float(MOST_LAYERS), "mean") == (gr.skip(),) * 4
    assert fill(*names, None, None, float(MOST_LAYERS), "mean")[2].value == 2


def test_another_picture_is_named_kept_and_held_against_that_of_a_link(
    demo: gr.Blocks, service: Service, scene: Upload, examples: tuple[Example, ...]
) -> None:
    (keep,) = [fn.fn for fn in demo.fns.values() if fn.fn and fn.name == "keep_other"]
    (choose,) = [fn.fn for fn in demo.fns.values() if fn.fn and fn.name == "choose_other"]
    assert keep is not None
    assert choose is not None
    assert keep(scene, "", "") == (scene.token, "")
    assert service.pictures.find(scene.token) is scene, "a link to it finds it"
    wanted, asked = "0" * 32, need_other("0" * 32)
    token, said = keep(scene, wanted, asked)
    assert (token, f"{scene.token}…, the link’s is {wanted}…" in said) == (scene.token, True)
    assert keep(scene, scene.token, said) == (scene.token, ""), "a link is answered once"
    _, token, said = choose(0, scene.token, need_other(scene.token))
    assert (token, said) == (examples[0].token, "This is the picture of the link, whose A2 is taken.")
    assert keep(None, "", "") == ("", "")


def test_no_event_of_these_tabs_is_public_and_no_connection_is_held_open(demo: gr.Blocks) -> None:
    ours = {
        "fill",
        "fill_again",
        "run_edits",
        "run_opened",
        "sweep",
        "read",
        "read_opened",
        "choose_other",
        "keep_other",
    }
    assert {fn.api_visibility for fn in demo.fns.values() if fn.fn and fn.name in ours} == {"private"}
    assert demo.get_config_file()["connect_heartbeat"] is False


def test_every_control_has_a_name_for_tests_and_a_label_for_readers(demo: gr.Blocks) -> None:
    kinds = (gr.Textbox, gr.Slider, gr.Dropdown, gr.Radio, gr.Image)
    for block in demo.blocks.values():
        if isinstance(block, kinds) and str(block.elem_id or "").startswith(("intervene", "sweep", "text")):
            assert block.label
            assert block.interactive
