"""What the Sparsity tab shows, step by step, also of models that have no CLS, no attention, or another grid."""

import base64
import io
import re
from dataclasses import replace

import gradio as gr
import numpy as np
import pytest
import torch
from families import built, randomised, resnet, with_trunk
from open_clip.model import CustomTextCLIP
from PIL import Image
from tiny import tiny_config

from models import LoadedModel, StudioError
from models.build import build_clip, make_differential_v2
from models.checkpoints import CheckpointInfo, wrap_model
from models.preprocess import Preprocess
from models.towers import text_tower, vision_tower
from studio.registry import Entry
from studio.service import Service
from studio.sparsity import RULES, Asked, layer_support, read_out
from studio.sparsity_sides import MATCHES, Controls, truth_of
from studio.sparsity_similarity import answers_shown
from studio.sparsity_view import segment_shown, show_sparsity, sweep_shown
from studio.upload import Upload

SET = Controls(
    alpha=1.5, match=MATCHES[0], keep=4, source="qk", mode="readout", everywhere=True, layer=1, left_head="mean",
    right_head="mean", query="CLS", classes="cat, dog", template="a photo of a {}", mask=None, painted=None, named="",
)  # fmt: skip


def names_of(service: Service) -> tuple[str, str]:
    left, right = service.names[:2]
    return left, right


def hosted(host: LoadedModel, name: str, clip: CustomTextCLIP) -> LoadedModel:
    """A network in the place of `host`'s, with a text tower for its vocabulary."""
    words = {"vocab_size": host.module.token_embedding.num_embeddings, "context_length": 16}  # type: ignore[union-attr]
    clip.text = built(text=words).text
    randomised(clip)
    return replace(host, name=name, title=name, module=clip, vision=vision_tower(clip), text=text_tower(clip))


def foreign(kind: str, host: LoadedModel) -> LoadedModel:
    if kind == "pooling head":
        return hosted(host, kind, with_trunk(class_token=False, global_pool="map"))
    if kind == "mean of patches":
        return hosted(host, kind, with_trunk(class_token=False, global_pool="avg"))
    if kind == "registers":
        return hosted(host, kind, with_trunk(reg_tokens=3))
    if kind == "no attention":
        clip = built()
        clip.visual = resnet()  # type: ignore[assignment]
        return hosted(host, kind, clip)
    if kind == "DIFF V2":
        clip = built()
        make_differential_v2(vision_tower(clip).blocks)
        return hosted(host, kind, clip)
    assert kind == "another grid"
    vocabulary = int(host.module.token_embedding.num_embeddings)  # type: ignore[union-attr]
    config = tiny_config("differential", vocabulary, 48)
    clip = build_clip(config, 3).eval().requires_grad_(False)
    info = CheckpointInfo(kind, "scenes", config, Preprocess(48, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))
    return wrap_model(clip, info, host.tokenizer, kind, host.folder)


def test_a_readout_shows_maps_then_tables_and_says_that_no_answer_changes(service: Service, scene: Upload) -> None:
    first, last = show_sparsity(service, scene, names_of(service), SET)
    assert [panel.title for panel in first.strip.panels] == ["A", "A1", "λA2", "A1 − λA2"]
    assert first.strip.note.startswith("Readout")
    assert "intervention" not in first.strip.note.lower()
    assert last.grids.count("<table") == 4
    assert "A readout changes nothing" in last.answers
    assert last.said == ""


def test_an_intervention_shows_maps_and_tables_and_leaves_the_answers_to_a_run_of_their_own(
    service: Service, scene: Upload
) -> None:
    asked = replace(SET, mode="intervention")
    first, last = show_sparsity(service, scene, names_of(service), asked)
    assert first.strip.note.startswith("Intervention")
    assert "readout" not in first.strip.note.lower()
    assert (last.grids.count("<table"), last.answers, last.said) == (4, "", "")
    steps = list(answers_shown(service, scene, names_of(service), asked))
    assert len(steps) == 2 * len(RULES)
    assert [step.shown.count("<table") for step in steps] == [1] * len(RULES) + [2] * len(RULES)
    assert steps[-2].said == "DiffCLIP, tiny: run 5 of 6 …"
    assert steps[-1].said == ""


@pytest.mark.parametrize("mode", ["readout", "intervention"])
def test_what_is_quick_takes_one_pass_of_each_model_at_most(service: Service, scene: Upload, mode: str) -> None:
    asked, passes = replace(SET, mode=mode, match=MATCHES[1]), list[str]()
    models = [service.model(name) for name in names_of(service)]
    for name in names_of(service):
        service.look(name, scene.image)
    handles = [
        model.module.visual.register_forward_hook(lambda *_, title=model.title: passes.append(title))  # type: ignore[union-attr]
        for model in models
    ]
    try:
        list(show_sparsity(service, scene, names_of(service), asked))
    finally:
        for handle in handles:
            handle.remove()
    assert passes == ([model.title for model in models] if mode == "intervention" else [])


def test_a_model_without_such_maps_is_not_run(service: Service, scene: Upload) -> None:
    asked = replace(SET, mode="intervention", source="vv")
    *_, last = answers_shown(service, scene, names_of(service), asked)
    assert {row[0] for row in last.table.rows} == {"CLIP, tiny"}
    assert list(answers_shown(service, scene, names_of(service), replace(asked, layer=9))) == []


def test_answers_are_told_in_full_beside_what_is_written(service: Service, scene: Upload) -> None:
    *_, last = answers_shown(service, scene, names_of(service), replace(SET, mode="intervention"))
    rows = [dict(zip(last.table.columns, row, strict=True)) for row in last.table.rows]
    assert [(row["model"], row["run"]) for row in rows[:3]] == [
        ("CLIP, tiny", "as it is"), ("CLIP, tiny", "as it is"), ("CLIP, tiny", "entmax"),
    ]  # fmt: skip
    assert len(rows) == 2 * len(RULES) * 2
    look = service.look(names_of(service)[0], scene.image)
    texts = look.model.encode_text(look.model.tokenize(["a photo of a cat", "a photo of a dog"]), normalize=True)
    assert [row["cosine"] for row in rows[:2]] == pytest.approx((texts @ look.embedding[0]).tolist())
    assert sum(float(row["probability"]) for row in rows[:2]) == pytest.approx(1)  # type: ignore[arg-type]
    *_, alone = answers_shown(service, scene, names_of(service), replace(SET, mode="intervention", classes="cat"))
    assert {row[4] for row in alone.table.rows} == {None}, "of one class there is no probability"


@pytest.mark.parametrize("wrong", [{"classes": " "}, {"template": "a photo"}])
def test_an_intervention_with_wrong_classes_shows_nothing_in_the_place_of_what_was_there(
    service: Service, scene: Upload, wrong: dict[str, str]
) -> None:
    steps = show_sparsity(service, scene, names_of(service), replace(SET, mode="intervention", **wrong))
    with pytest.raises(StudioError, match=r"classes is empty|has no \{\}"):
        next(steps)
    assert len(list(show_sparsity(service, scene, names_of(service), replace(SET, **wrong)))) == 2


def test_one_model_on_both_sides_is_shown_once(service: Service, scene: Upload) -> None:
    name = service.names[0]
    first, *_ = show_sparsity(service, scene, (name, name), SET)
    assert [panel.title for panel in first.strip.panels] == ["A"]


@pytest.mark.parametrize("match", MATCHES[1:])
def test_matched_supports_give_each_model_its_own_alpha(service: Service, scene: Upload, match: str) -> None:
    first, *_ = show_sparsity(service, scene, names_of(service), replace(SET, match=match))
    note = first.strip.note
    alphas = [note.split(f"{title} α = ")[1][:4] for title in ("CLIP, tiny", "DiffCLIP, tiny")]
    assert alphas[0] != alphas[1]


@pytest.mark.parametrize(("match", "leading"), [(MATCHES[1], 1), (MATCHES[2], 0)])
def test_either_model_can_have_the_others_support(
    service: Service, scene: Upload, match: str, leading: int, clip: LoadedModel, diffclip: LoadedModel
) -> None:
    first, *_ = show_sparsity(service, scene, names_of(service), replace(SET, match=match))
    told = re.findall(r"tiny α = ([\d.]+\d)", first.strip.note)
    alphas, supports = [float(alpha) for alpha in told], []
    for name, alpha in zip(names_of(service), alphas, strict=True):
        supports.append(layer_support(read_out(service.look(name, scene.image), Asked(alpha)), 1))
    assert alphas[leading] == 1.5
    assert alphas[1 - leading] != 1.5
    look = service.look(names_of(service)[1 - leading], scene.image)
    assert abs(supports[0] - supports[1]) < abs(layer_support(read_out(look, Asked(1.5)), 1) - supports[leading])
    assert abs(supports[0] - supports[1]) < 0.05
    reached, wanted = (f"{100 * supports[at]:.1f} %" for at in (1 - leading, leading))
    where = "layer 1, the mean over maps, heads and queries"
    assert f"{look.model.title} keeps {reached} of the keys in {where}; {wanted} wanted." in first.strip.note


def test_a_support_that_no_alpha_reaches_is_told_with_the_one_that_is_reached(service: Service, scene: Upload) -> None:
    # A row of two maps has a key of each of them, unless both have the same one.
    asked = replace(SET, match=MATCHES[3], keep=1, source="qq+kk")
    told = r"CLIP, tiny α = 2;.*CLIP, tiny keeps (\d+\.\d) % of the keys in layer 1, [^;]+; 5.9 % wanted"
    never = ": no α from 1 to 2 comes nearer"
    for mode, end in (("readout", "."), ("intervention", ", both as read off the unmodified run.")):
        first, *_ = show_sparsity(service, scene, names_of(service), replace(asked, mode=mode))
        found = re.search(told + never + re.escape(end), first.strip.note)
        assert found, first.strip.note
        assert float(found[1]) > 100 / 17 * 1.5


def test_tables_of_all_layers_and_answers_are_of_no_layer(service: Service, scene: Upload) -> None:
    asked = replace(SET, mode="intervention")
    first, last = show_sparsity(service, scene, names_of(service), asked)
    answered = list(answers_shown(service, scene, names_of(service), asked))[-1]
    assert "Layer 1, source qk" in first.strip.note
    for shown in (last.grids, answered.shown):
        assert ("in all layers. Source qk," in shown, "Layer 1" in shown) == (True, False)


@pytest.mark.parametrize(("match", "leading"), [(MATCHES[1], 1), (MATCHES[2], 0)])
def test_a_model_that_keeps_the_alpha_that_is_set_for_want_of_the_other_ones_support_says_so(
    service: Service, scene: Upload, match: str, leading: int, clip: LoadedModel
) -> None:
    bare = foreign("no attention", clip)
    service.registry.bring(bare.name, Entry(bare.name, None, None), bare)
    names = [service.names[0], service.names[0]]
    names[leading] = bare.name
    first, *_ = show_sparsity(service, scene, (names[0], names[1]), replace(SET, match=match))
    kept = "CLIP, tiny keeps the α that is set, 1.5: no attention has no map whose support it could be given."
    assert kept in first.strip.note
    first, *_ = show_sparsity(service, scene, (names[0], names[1]), SET)
    assert "keeps the α" not in first.strip.note, "nothing was to be matched"
    # A model that has attention, but no map of this source, leads as little.
    first, *_ = show_sparsity(service, scene, names_of(service), replace(SET, match=MATCHES[1], source="vv"))
    assert "CLIP, tiny keeps the α that is set, 1.5: DiffCLIP, tiny has no map" in first.strip.note
    assert [bool(panel.message) for panel in first.strip.panels] == [False, True]


def test_rows_of_a_sum_add_up_to_what_the_note_says(service: Service, scene: Upload) -> None:
    for source, count in (("qq+kk", 2), ("qq+kk+vv", 3)):
        first, *_ = show_sparsity(service, scene, names_of(service), replace(SET, source=source))
        sides = "" if count == 3 else ", A1 to 2, λA2 to 2 × λ, A1 − λA2 to 2 × (1 − λ)"
        said = f"{count} maps are summed after they are normalised, so a row adds up: A to {count}{sides}."
        assert said in first.strip.note
        maps = read_out(service.look(names_of(service)[0], scene.image), Asked(1.5, source)).maps(1)
        assert torch.allclose(maps.weights.sum(-1), torch.tensor(float(count)), atol=1e-5)
    maps = read_out(service.look(names_of(service)[1], scene.image), Asked(1.5, "qq+kk")).maps(1)
    assert maps.lam is not None
    assert maps.subtracted is not None
    assert torch.allclose(maps.subtracted.sum(-1), 2 * maps.lam.reshape(1), atol=1e-5)
    assert torch.allclose(maps.weights.sum(-1), 2 * (1 - maps.lam.reshape(1)), atol=1e-5)
    first, *_ = show_sparsity(service, scene, names_of(service), SET)
    assert "adds up" not in first.strip.note


def test_what_one_model_lacks_is_said_in_its_place(service: Service, scene: Upload) -> None:
    first, *_ = show_sparsity(service, scene, names_of(service), replace(SET, source="vv"))
    messages = [panel.message for panel in first.strip.panels]
    assert messages[0] == ""
    assert "'vv' is undefined" in messages[1]
    first, *_ = show_sparsity(service, scene, names_of(service), replace(SET, layer=9))
    assert all("has no layer 9" in panel.message for panel in first.strip.panels)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"match": "x"}, "Matching 'x' is unknown"),
        ({"mode": "x"}, "choose readout or intervention"),
        ({"alpha": 3}, "α must be a number"),
        ({"query": "up"}, "is no patch"),
        ({"source": "x"}, "Source 'x' is unknown"),
        ({"classes": "", "mode": "intervention"}, "list of classes is empty"),
    ],
)
def test_settings_that_make_no_sense_get_a_sentence(
    service: Service, scene: Upload, changed: dict, sentence: str
) -> None:
    with pytest.raises(StudioError, match=sentence):
        list(show_sparsity(service, scene, names_of(service), replace(SET, **changed)))


def test_the_sweep_counts_and_ends_with_a_chart(service: Service, scene: Upload) -> None:
    *steps, (said, chart) = sweep_shown(service, scene, names_of(service), SET)
    assert all(drawn is None for _, drawn in steps)
    assert said.startswith("A readout")
    assert said.count("“A2 shuffled” is entmax too: the same number of A1 − λA2 with A2 permuted") == 1
    assert chart is not None
    assert chart.notes == (said,)
    curves = [curve for plot in chart.plots for curve in plot.curves]
    assert len(curves) == (4 + 5) * 4, "rules, of the difference also A2 shuffled, times measures"


def test_a_segmentation_gives_a_class_one_colour_on_both_strips(service: Service, scene: Upload) -> None:
    asked = replace(SET, classes=", ".join(f"class {at}" for at in range(12)))
    *_, (said, left, right) = segment_shown(
        service, scene, names_of(service), asked, "sclip", 0.0, ["softmax", "entmax"]
    )
    assert said == ""
    assert left is not None
    assert right is not None
    assert left.coloured == right.coloured
    assert [panel.title for panel in left.panels] == ["mask", "softmax", "entmax, α = 1.5"]
    with pytest.raises(StudioError, match="cannot be shown"):
        list(segment_shown(service, scene, names_of(service), SET, "sclip", 0.0, ["x"]))


def test_a_painted_mask_holds_before_an_uploaded_one_and_only_for_its_picture(service: Service, scene: Upload) -> None:
    stream = io.BytesIO()
    Image.fromarray(np.full((64, 64), 255, np.uint8)).save(stream, "PNG")
    painted = {"token": scene.token, "mask": "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()}
    uploaded = Upload(Image.fromarray(np.eye(64, dtype=np.uint8) * 255).convert("RGB"), scene.file)
    sources, said = [], []
    for asked in (
        SET,
        replace(SET, mask=uploaded),
        replace(SET, mask=uploaded, painted=painted),
        replace(SET, mask=uploaded, painted={**painted, "token": "another"}),
    ):
        truth = truth_of(service, scene, asked)
        assert truth is not None
        sources.append(truth.source)
        first, *_ = show_sparsity(service, scene, names_of(service), asked)
        *_, (curves, _) = sweep_shown(service, scene, names_of(service), asked)
        for note in (first.strip.note, curves):
            assert f"Mass in the object and AUROC are measured against {truth.words}." in note
        assert f"are measured at pixels against {truth.words};" in segmented_note(service, scene, asked)
        said.append(truth.words)
    assert sources == ["the scene's own mask", "uploaded", "painted", "uploaded"]
    assert said == ["the scene's own mask", "the uploaded mask", "the painted mask", "the uploaded mask"]


def test_a_picture_without_a_mask_says_that_nothing_is_measured(service: Service, scene: Upload) -> None:
    bare = Upload(scene.image.rotate(90), scene.file)
    first, *_ = show_sparsity(service, bare, names_of(service), SET)
    *_, (said, _) = sweep_shown(service, bare, names_of(service), SET)
    for note in (first.strip.note, said):
        assert "no object mask, so mass in the object and AUROC are not given" in note
        assert "measured against" not in note


def segmented_note(service: Service, scene: Upload, asked: Controls) -> str:
    *_, (_, left, _) = segment_shown(service, scene, names_of(service), asked, "sclip", 0.0, ["softmax"])
    assert left is not None
    return left.note


def test_a_mask_with_one_value_says_which_class_it_counts_as(service: Service, scene: Upload) -> None:
    uploaded = Upload(Image.fromarray(np.eye(64, dtype=np.uint8) * 255).convert("RGB"), scene.file)
    one = replace(SET, mask=uploaded)
    assert "uploaded mask counts as “cat”, the first class, since none is named" in segmented_note(service, scene, one)
    assert "uploaded mask counts as “dog”." in segmented_note(service, scene, replace(one, named="dog"))
    assert "counts as" not in segmented_note(service, scene, SET), "the scene's own mask knows its classes"


def test_a_segmentation_says_what_a2_shuffled_is_for_a_model_that_has_an_a2(service: Service, scene: Upload) -> None:
    *_, (_, left, right) = segment_shown(service, scene, names_of(service), SET, "sclip", 0.0, ["softmax"])
    assert left is not None
    assert right is not None
    said = (
        "“A2 shuffled”: the same number with A2 of the last layer permuted over the patches, mean of 3 fixed shuffles"
    )
    assert said in right.note
    assert "shuffled" not in left.note
    bare = Upload(scene.image.rotate(90), scene.file)
    *_, (_, _, right) = segment_shown(service, bare, names_of(service), SET, "sclip", 0.0, ["softmax"])
    assert right is not None
    assert "shuffled" not in right.note, "without a mask there are no numbers"


def test_a_segmentation_says_which_classes_a_model_does_not_know(service: Service, scene: Upload) -> None:
    note = segmented_note(service, scene, replace(SET, classes="cat, zebra\n猫", template=""))
    assert "CLIP, tiny: never seen in training: zebra, 猫." in note
    assert "never seen" not in segmented_note(service, scene, replace(SET, classes="cat", template=""))


@pytest.mark.parametrize(
    "kind", ["pooling head", "mean of patches", "registers", "no attention", "DIFF V2", "another grid"]
)
@pytest.mark.parametrize("mode", ["readout", "intervention"])
def test_foreign_models_are_shown_or_say_why_not(
    service: Service, scene: Upload, clip: LoadedModel, kind: str, mode: str
) -> None:
    model = foreign(kind, clip)
    service.registry.bring(kind, Entry(kind, None, None), model)
    names = (service.names[0], kind)
    for query in ("CLS", "1, 2"):
        *_, shown = show_sparsity(service, scene, names, replace(SET, mode=mode, query=query))
        own = [panel for panel in shown.strip.panels if panel.of.startswith(kind)]
        assert own
        assert any(panel.message for panel in own) is (kind == "no attention")
    if mode == "intervention":
        *_, last = answers_shown(service, scene, names, replace(SET, mode=mode))
        assert (f"<b>{kind}</b>" in last.shown) is (kind != "no attention")
    if mode == "readout":
        *_, (_, _left, right) = segment_shown(service, scene, names, SET, "sclip", 0.0, ["softmax", "entmax"])
        assert right is not None
        # A bare timm tower is not open_clip's wrapper of one, so its tokens have no known way into the joint space.
        unreadable = kind not in ("DIFF V2", "another grid")
        assert [bool(panel.message) for panel in right.panels] == [False, unreadable, unreadable]
        *_, (said, chart) = sweep_shown(service, scene, names, SET)
        assert chart is not None
        assert (f"{kind}:" in said) is True


def test_the_tab_keeps_no_connection_open(service: Service) -> None:
    from studio.looked_at import choose_what_is_looked_at
    from studio.tabs.sparsity import sparsity_tab

    with gr.Blocks(analytics_enabled=False) as demo:
        looked_at = choose_what_is_looked_at(service, ())
        with gr.Tab("Sparsity") as tab:
            sparsity_tab(looked_at, service, tab, ())
    config = demo.get_config_file()
    assert config["connect_heartbeat"] is False
    ids = [
        each["props"].get("elem_id") for each in config["components"] if each["type"] in ("slider", "radio", "button")
    ]
    assert {"sparsity-alpha", "sparsity-mode", "sparsity-show"} <= set(ids)
