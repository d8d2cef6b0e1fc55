"""The tabs' part of the address: every setting in it is a field of the page, and opening one sets fields and tab."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from starlette.datastructures import QueryParams

from models import LoadedModel
from studio.examples import load_examples
from studio.tab_link import Below, Edits, Named, read_settings, written
from studio.tabs.intervene import need_other
from studio.tabs.linked import HELD, TABS, WAITS, linked_components
from studio.ui import build_app
from studio.view_link import VIEWS

NAMES = ("clip-scenes", "diffclip-scenes")


@pytest.fixture(scope="module")
def demo(folders: tuple[Path, Path]) -> gr.Blocks:
    return build_app(folders)


def answered(demo: gr.Blocks, query: str, picture: object = "a picture") -> dict[Any, Any]:
    """What each component becomes by an address."""
    (handler,) = [fn.fn for fn in demo.fns.values() if fn.name == "open_settings" and fn.fn]
    return handler(picture, *NAMES, SimpleNamespace(query_params=QueryParams(query)))


def of_id(answer: dict[Any, Any], elem_id: str) -> Any:
    (found,) = [value for component, value in answer.items() if component.elem_id == elem_id]
    return found


def opened(demo: gr.Blocks, query: str, picture: object = "a picture") -> tuple[dict[str, Any], str, str]:
    """What an address makes of the page: fields by their keys, the tab, and what is said."""
    answer = answered(demo, query, picture)
    keys = {each.component: each.field.key for each in linked_components(demo)}
    values = {keys[component]: value for component, value in answer.items() if component in keys}
    (tabs,) = [block for block in demo.blocks.values() if isinstance(block, gr.Tabs)]
    return values, answer[tabs]["selected"] if tabs in answer else "", of_id(answer, "address-said")["said"]


def test_what_a_field_is_by_default_is_read_back_as_that(demo: gr.Blocks) -> None:
    assert len(linked_components(demo)) == len(HELD)
    for each in linked_components(demo):
        if isinstance(each.field.rule, Below | Edits | Named):
            continue
        usual = each.field.default
        texts = [written(value) for value in usual] if isinstance(usual, list) else [written(usual)]
        read = read_settings([(each.field.key, text) for text in texts or [""]], [each.field])
        assert read.remarks == ()
        assert read.values == {each.field.key: "" if usual is None else usual}


def test_no_change_of_a_field_asks_the_server_for_the_address(demo: gr.Blocks) -> None:
    (line,) = [block for block in demo.blocks.values() if getattr(block, "elem_id", "") == "address-said"]
    (written_by,) = [fn for fn in demo.fns.values() if line in fn.outputs and fn.name != "open_settings"]
    assert written_by.fn is None
    assert {each.component._id for each in linked_components(demo)} <= {target for target, _ in written_by.targets}


def test_an_address_without_settings_changes_nothing(demo: gr.Blocks) -> None:
    assert opened(demo, "picture=x&left=gone&p=a1.mean.x&layer=77&other.key=1") == ({}, "", "")
    assert opened(demo, "tab=compare") == ({}, "", "")


def test_settings_of_all_tabs_and_the_open_one_are_set(
    demo: gr.Blocks, clip: LoadedModel, diffclip: LoadedModel
) -> None:
    values, tab, said = opened(
        demo,
        "tab=intervene&sparsity.alpha=1.3&sparsity.rules=softmax&sparsity.rules=identity&sparsity.everywhere=false"
        "&sparsity.layer=1&sparsity.head.right=1&explain.method=ig&explain.texts=a%0Ab&duel.steps=8&text.layer=0"
        "&lambda.runs=clip-scenes&intervene.right=vision.lam.0.0.5&intervene.head=3",
    )
    assert tab == "intervene"
    assert said == WAITS
    heads = {key: values.pop(key) for key in ("sparsity.head.right", "intervene.head")}
    assert heads["sparsity.head.right"]["choices"] == ["mean", *map(str, range(diffclip.vision.heads))]
    assert heads["intervene.head"]["choices"] == ["mean", *map(str, range(clip.vision.heads))]
    assert [update["value"] for update in heads.values()] == ["1", "3"]
    table = values.pop("intervene.right")
    assert table["name"] == "diffclip-scenes"
    assert table["chosen"]["vision"]["lam"][0] == 0.5
    assert table["towers"], "the table is whole, so that its tab need not fill it"
    assert values == {
        "sparsity.alpha": 1.3,
        "sparsity.rules": ["softmax", "identity"],
        "sparsity.everywhere": False,
        "sparsity.layer": 1,
        "explain.method": "ig",
        "explain.texts": "a\nb",
        "duel.steps": 8,
        "text.layer": 0,
        "lambda.runs": ["clip-scenes"],
    }


def test_what_cannot_be_is_left_out_and_told(demo: gr.Blocks) -> None:
    query = "tab=gone&sparsity.layer=99&explain.method=magic&intervene.left=vision.lam.0.0.5&lambda.runs=gone"
    values, tab, said = opened(demo, query)
    assert (values, tab) == ({}, "")
    for key in ("tab “gone”", "sparsity.layer “99”", "explain.method “magic”", "lambda.runs “gone”"):
        assert f"The link's {key} is left out" in said
    assert "intervene.left is left out: CLIP, tiny has no edit" in said
    assert WAITS not in said


def test_keys_that_were_left_out_go_from_the_address(demo: gr.Blocks) -> None:
    wrong = ["tab", "explain.strip.drawing", "sparsity.layer", "explain.method", "intervene.left", "intervene.other"]
    query = "&".join(["sparsity.alpha=1.3", "text.layer=0", *(f"{key}=jet" for key in wrong)])
    assert sorted(of_id(answered(demo, query), "address-said")["gone"]) == sorted(wrong)
    assert of_id(answered(demo, "right=gone&intervene.right=vision.lam.0.0.5"), "address-said")["gone"] == [
        "intervene.right"
    ]


def test_another_picture_of_an_address_is_taken_where_it_is_here_and_asked_for_where_it_is_not(demo: gr.Blocks) -> None:
    scene = load_examples()[1]
    answer = answered(demo, f"intervene.other={scene.token}")
    assert of_id(answer, "intervene-other") == str(scene.picture)
    assert of_id(answer, "intervene-other-token") == scene.token
    assert (of_id(answer, "intervene-other-need"), of_id(answer, "address-said")["said"]) == ("", WAITS)
    answer = answered(demo, f"intervene.other={'0' * 32}")
    assert of_id(answer, "intervene-other") is None
    assert of_id(answer, "intervene-other-token") == "0" * 32, "the address keeps it"
    asked = need_other("0" * 32)
    assert of_id(answer, "intervene-other-need") == asked
    assert of_id(answer, "address-said")["said"] == f"{WAITS} {asked}"


def test_layers_and_heads_of_drawings_are_held_against_those_of_the_models(
    demo: gr.Blocks, clip: LoadedModel, diffclip: LoadedModel
) -> None:
    last = max(clip.vision.layers, clip.text.layers) - 1
    heads = [f"text.maps.head-{at}={model.text.heads}" for at, model in enumerate((clip, diffclip))]
    assert opened(demo, "&".join([f"lambda.chart.layer={last}", *heads])) == ({}, "", "")
    said = opened(demo, f"lambda.chart.layer={last + 1}&text.maps.head-1={diffclip.text.heads + 1}")[2]
    assert f"lambda.chart.layer “{last + 1}” is left out: it is not a whole number from 0 to {last}." in said
    assert f"it is not a whole number from 0 to {diffclip.text.heads}." in said
    assert opened(demo, "lambda.chart.hidden=clip-scenes&lambda.chart.hidden=gone")[2] == (
        "The link's lambda.chart.hidden “gone” is left out: it is not here."
    )


def test_edits_of_a_model_that_is_not_here_are_not_made_to_another(demo: gr.Blocks) -> None:
    values, _, said = opened(demo, "right=gone&intervene.right=vision.lam.0.0.5")
    assert values == {}
    assert said == "The link's intervene.right is left out: it belongs to a model that is not here."


def test_a_tab_that_is_opened_by_an_address_says_what_compare_says(demo: gr.Blocks) -> None:
    token = "0123456789abcdef" * 2
    assert token in opened(demo, f"tab=text&picture={token}", picture=None)[2]
    assert opened(demo, f"tab=text&picture={token}") == ({}, "text", "")
    assert "“gone” is not here" in opened(demo, "tab=text&left=gone")[2]
    assert "layer 77 is past the last one of these models: shown is 2." in opened(demo, "tab=text&layer=77")[2]


def test_server_folders_logs_and_masks_are_in_no_address(demo: gr.Blocks) -> None:
    held = {elem_id for elem_id, _ in HELD.values()}
    assert held.isdisjoint({"lambda-folders", "lambda-logs", "sparsity-mask", "sparsity-painter", "intervene-other"})
    assert len(TABS) == 6


def test_what_drawings_keep_by_themselves_is_held_against_what_there_is(demo: gr.Blocks) -> None:
    right = "explain.strip.ramp=linear&text.maps.map=subtracted&lambda.chart.terms=true&sparsity.maps.opacity=40"
    assert opened(demo, right) == ({}, "", "")
    said = opened(demo, "explain.strip.ramp=cubic&sparsity.maps.opacity=140")[2]
    assert "The link's explain.strip.ramp “cubic” is left out: it is not one of linear, root." in said
    assert "The link's sparsity.maps.opacity “140” is left out: it is not a whole number from 0 to 100." in said


def test_the_names_under_which_drawings_are_kept_are_those_of_components_on_the_page(demo: gr.Blocks) -> None:
    names = {field.key.rpartition(".")[0].replace(".", "-", 1) for field in VIEWS}
    assert names <= {getattr(block, "elem_id", None) for block in demo.blocks.values()}
