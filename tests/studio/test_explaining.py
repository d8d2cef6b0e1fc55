"""Explanations of both towers by every method: against the core, against their cost, and where something is missing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from families import randomised, siglip, with_trunk

from models import Choice, LoadedModel, StudioError, map_gradients
from models.intervention import ShuffledA2, intervene
from models.layout import TokenGrid
from models.relevance import relevance
from models.towers import text_tower, vision_tower
from models.vocabulary import NoTokenizer
from studio.attribution import drained
from studio.explain_all import RELEVANCE, SETTINGS, cost_in_words, explain_all, method_of
from studio.explaining import NOTHING, Explanation, by_patch, explain
from studio.methods import (
    MOST_STEPS,
    GradientShap,
    IntegratedGradients,
    LayerGradCam,
    LayerIntegratedGradients,
    Method,
    Occlusion,
    Relevance,
    checked,
    described,
    passes,
    unit_of,
)
from studio.registry import Entry
from studio.service import Look, Service
from studio.speaking import RelevanceAsked, RelevanceStore
from studio.upload import Upload

TEXT = "a photo of a cat"
METHODS: list[Method] = [
    Relevance(),
    IntegratedGradients(8),
    GradientShap(8),
    Occlusion(),
    LayerIntegratedGradients(8, back=2),
    LayerGradCam(2),
]


@pytest.fixture
def looks(service: Service, scene: Upload) -> tuple[Look, Look]:
    return service.look("clip-scenes", scene.image), service.look("diffclip-scenes", scene.image)


def explained(look: Look, image: Any, method: Method, text: str = TEXT) -> tuple[Explanation, int]:
    results: list[Explanation] = []
    count = sum(drained(explain(look, look.model.preprocess(image)[0], text, method), results))
    return results[0], count


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_both_towers_are_explained_and_cost_what_was_said(
    looks: tuple[Look, Look], scene: Upload, method: Method
) -> None:
    for look in looks:
        found, count = explained(look, scene.image, method)
        grid = look.model.vision.layout
        assert isinstance(grid, TokenGrid)
        assert found.picture.message == found.words.message == ""
        assert found.picture.values is not None
        assert found.words.values is not None
        assert found.picture.values.shape in ((4, 4), (32, 32))
        assert found.words.values.shape == (len(found.pieces),)
        # Start and end are no words, and have a part only where what they have read of the words is explained.
        bare = [] if isinstance(method, LayerIntegratedGradients) else [0, len(found.pieces) - 1]
        assert np.isnan(found.words.values).nonzero()[0].tolist() == bare
        assert np.nanmax(np.abs(found.words.values)) > 0
        assert count == found.passes == passes(method, (4, 4), len(found.pieces) - 2)


def test_relevance_is_the_cores_own(looks: tuple[Look, Look], scene: Upload) -> None:
    look = looks[1]
    found, _ = explained(look, scene.image, Relevance("a1", "signed", 2))
    model, choice = look.model, Choice("a1", (-2, -1))
    gradients = map_gradients(model, model.preprocess(scene.image)[0][None], model.tokenize([TEXT]), choice, choice)
    assert gradients.vision is not None
    assert gradients.text is not None
    assert found.picture.values is not None
    assert found.words.values is not None
    assert np.allclose(found.picture.values, relevance(gradients.vision, "signed").patches[0])
    tokens = relevance(gradients.text, "signed").tokens[0]
    assert np.allclose(found.words.values[1:-1], tokens[1 : len(found.pieces) - 1])
    assert (found.picture.layers, found.words.layers) == ("layers 1–2 of 0–2", "layers 0–1 of 0–1")
    assert found.picture.signed


def test_more_layers_than_there_are_means_all(looks: tuple[Look, Look], scene: Upload) -> None:
    found, _ = explained(looks[0], scene.image, Relevance(back=24))
    assert found.picture.layers == "layers 0–2 of 0–2"
    found, _ = explained(looks[0], scene.image, LayerGradCam(24))
    assert found.picture.layers == "tokens entering layer 0"


def test_relevance_takes_the_last_layer_alone_where_nothing_is_chosen(
    service: Service, looks: tuple[Look, Look], scene: Upload
) -> None:
    assert Relevance() == Relevance(back=1)
    assert described(Relevance()).endswith("last layer")
    for name, look in zip(("clip-scenes", "diffclip-scenes"), looks, strict=True):
        shown = RelevanceStore(service).relevance(RelevanceAsked(name, scene.token, TEXT, None), scene.image)
        assert shown["layers"] == str(look.model.vision.layers - 1)
        default, last, every = (
            explained(look, scene.image, method)[0].picture.values
            for method in (Relevance(), Relevance(back=1), Relevance(back=look.model.vision.layers))
        )
        assert default is not None
        assert last is not None
        assert every is not None
        assert np.array_equal(default, last)
        assert not np.allclose(default, every), "early layers do change what is shown"


def test_a_clip_has_no_second_map_and_says_so_on_both_sides(looks: tuple[Look, Look], scene: Upload) -> None:
    found, _ = explained(looks[0], scene.image, Relevance("a2"))
    assert "has one map and no A2" in found.picture.message
    assert "has one map and no A2" in found.words.message
    assert explained(looks[1], scene.image, Relevance("a2"))[0].picture.message == ""


def test_a_map_of_nothing_but_zeros_is_shown_with_a_note(looks: tuple[Look, Look], scene: Upload) -> None:
    # A's entries are never negative, so no product has a negative map.
    found, _ = explained(looks[0], scene.image, Relevance(rule="--"))
    assert found.picture.values is not None
    assert not found.picture.values.any()
    assert "No token has any relevance under the rule '--'." in found.picture.message


def test_integrated_gradients_tell_how_far_they_are_from_complete(looks: tuple[Look, Look], scene: Upload) -> None:
    found, _ = explained(looks[1], scene.image, IntegratedGradients(64))
    for scores in (found.picture, found.words):
        assert scores.gap is not None
        assert scores.values is not None
        gap, wanted = scores.gap
        assert abs(gap) < 5e-3
        if scores is found.picture:
            assert float(scores.values.sum()) == pytest.approx(wanted + gap, abs=1e-5)


def test_pixels_are_summed_within_their_patch() -> None:
    values = np.arange(35.0).reshape(5, 7)
    assert by_patch(values, TokenGrid(1, 2, 3)).tolist() == [
        [values[0:2, 0:2].sum(), values[0:2, 2:4].sum(), values[0:2, 4:6].sum()],
        [values[2:4, 0:2].sum(), values[2:4, 2:4].sum(), values[2:4, 4:6].sum()],
    ]


class _Words:
    """A tokenizer of another project: numbered words, an end token, no start."""

    context, vocab_size = 10, 50

    def __init__(self, rule: Any) -> None:
        self.rule = rule

    def __call__(self, texts: list[str]) -> torch.Tensor:
        rows = [[*range(2, 2 + len(text.split())), self.vocab_size - 1] for text in texts]
        return torch.tensor([row + [self.rule.pad] * (self.context - len(row)) for row in rows])

    def pieces(self, text: str) -> list[str]:
        return [*text.split(), "</s>"]

    def unknown_words(self, text: str) -> list[str]:
        return []

    def foreign_words(self, text: str) -> list[str]:
        return []

    def cut_text(self, text: str) -> str:
        return ""


def foreign(model: LoadedModel, kind: str) -> LoadedModel:
    """`model` with foreign towers in its place, and a tokenizer of their own."""
    words = _Words(model.tokenizer.rule)
    if kind == "siglip":
        return replace(siglip(model), tokenizer=words)  # type: ignore[arg-type]
    options = {"mean": {"class_token": False, "global_pool": "avg"}, "registers": {"reg_tokens": 3}}[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        module = with_trunk(**options)
        randomised(module)
    towers = {"vision": vision_tower(module), "text": text_tower(module)}
    return replace(model, module=module, tokenizer=words, **towers)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["siglip", "mean", "registers"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_towers_without_cls_with_registers_and_with_a_pooling_head_are_explained(
    clip: LoadedModel, service: Service, scene: Upload, kind: str, method: Method
) -> None:
    model = foreign(clip, kind)
    embedding = model.encode_image(model.preprocess(scene.image)[0][None])
    look = replace(service.look("clip-scenes", scene.image), model=model, embedding=embedding)
    found, _ = explained(look, scene.image, method, "red cat here")
    assert (found.picture.message, found.words.message) == ("", "")
    assert found.picture.values is not None
    assert found.words.values is not None
    assert found.picture.values.shape in ((4, 4), (32, 32))
    assert found.pieces == ("red", "cat", "here", "</s>")
    end = not isinstance(method, LayerIntegratedGradients)
    assert np.isnan(found.words.values).tolist() == [False, False, False, end]


@pytest.mark.parametrize("kind", ["", "mean", "registers"])
def test_a_layers_parts_add_up_with_the_tokens_that_have_no_place_on_the_picture(
    clip: LoadedModel, service: Service, scene: Upload, kind: str
) -> None:
    look = service.look("clip-scenes", scene.image)
    if kind:
        model = foreign(clip, kind)
        embedding = model.encode_image(model.preprocess(scene.image)[0][None])
        look = replace(look, model=model, embedding=embedding)
    found, _ = explained(look, scene.image, LayerIntegratedGradients(32), "red cat here")
    for scores in (found.picture, found.words):
        assert scores.values is not None
        assert scores.gap is not None
        gap, wanted = scores.gap
        assert float(scores.values.sum()) + (scores.aside or 0.0) == pytest.approx(wanted + gap, abs=1e-5)
    assert found.words.aside is None
    assert (found.picture.aside is None) is (kind == "mean"), "a tower without CLS sets nothing aside"
    if kind == "":
        assert found.picture.aside
        assert abs(found.picture.aside) > 1e-4


def test_a_tower_without_attention_says_why_and_the_text_is_still_explained(
    clip: LoadedModel, service: Service, scene: Upload
) -> None:
    bare = replace(clip.vision, attention=(), blocks=(), reason="The vision tower is a ResNet.")
    look = replace(service.look("clip-scenes", scene.image), model=replace(clip, vision=bare))
    for method in (Relevance(), LayerGradCam()):
        found, _ = explained(look, scene.image, method)
        assert found.picture.message == "The vision tower is a ResNet."
        assert found.picture.values is None
        assert found.words.values is not None


@pytest.mark.parametrize("steps", [0, 3, MOST_STEPS + 1, 10**9])
def test_limits_on_steps_are_told_in_a_sentence(steps: int) -> None:
    for method in (IntegratedGradients(steps), GradientShap(steps), LayerIntegratedGradients(steps)):
        with pytest.raises(StudioError, match=f"^{steps} steps cannot be made: choose 4 to {MOST_STEPS};.*\\.$"):
            checked(method)


def test_other_settings_that_do_not_exist_are_refused() -> None:
    for method in (Occlusion("../etc"), IntegratedGradients(8, "red")):  # type: ignore[arg-type]
        with pytest.raises(StudioError, match="is unknown: choose mean colour"):
            checked(method)
    with pytest.raises(StudioError, match="choose 1 to 24"):
        checked(Relevance(back=0))
    for asked in (("relevance", "a3", "positive"), ("relevance", "a1", "both"), ("lime", "a1", "positive")):
        with pytest.raises(StudioError, match="choose"):
            method_of(*asked, 1, 8, "blur")


def test_names_and_settings_of_the_page_make_every_method() -> None:
    made = {name: method_of(name, "a1", "++", 2.0, 8, "blur") for name in SETTINGS}
    assert made[RELEVANCE] == Relevance("a1", "++", 2)
    assert len({type(method) for method in made.values()}) == len(SETTINGS) == 6
    for method in made.values():
        assert described(method)
        assert unit_of(method)
        assert "passes for each text and model" in cost_in_words(method, [TokenGrid(1, 4, 4), TokenGrid(1, 2, 2)])
    assert cost_in_words(Occlusion(), [TokenGrid(1, 4, 4), TokenGrid(1, 2, 2)]).startswith("25 or 11 passes")
    assert "A2 shuffled" not in cost_in_words(Relevance())
    assert "With A2 shuffled 12 more" in cost_in_words(Relevance(), shuffled=[TokenGrid(1, 4, 4)])


def test_all_prompts_by_both_models_come_in_order_and_reach_the_total(service: Service, scene: Upload) -> None:
    names, prompts = ("clip-scenes", "diffclip-scenes"), ["a cat", "two dogs"]
    states = list(explain_all(service, scene, names, prompts, Occlusion(), control=False))
    assert [(each.prompt, each.look.model.name) for each in states[-1].explanations] == [
        (prompt, name) for prompt in prompts for name in names
    ]
    made = [state.made for state in states]
    assert made == sorted(made)
    assert made[-1] == states[-1].total == states[0].total
    assert [len(state.explanations) for state in states if state.made == made[-1]][-1] == 4


class _Wrapped(torch.nn.Module):
    """A text tower whose words are embedded by something that nobody outside knows."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.inner(ids)


def test_a_side_that_cannot_be_explained_ends_a_run_with_the_passes_that_were_made(
    clip: LoadedModel, service: Service, scene: Upload
) -> None:
    model = foreign(clip, "siglip")
    model.module.text = _Wrapped(model.module.text)  # type: ignore[arg-type]
    service.registry.bring("wrapped", Entry("Wrapped", None, None), replace(model, name="wrapped"))
    names, method = ("wrapped", "diffclip-scenes"), IntegratedGradients(8)
    states = list(explain_all(service, scene, names, ["a cat", "two dogs"], method, control=True))
    assert "cannot be changed one by one" in states[-1].explanations[0].words.message
    assert states[-1].made == states[-1].total < states[0].total
    assert all(state.made <= state.total for state in states)
    ready = [state.ready for state in states]
    ended = [ready.index((count, 0)) for count in range(1, 5)] + [ready.index((4, 1))]
    assert all(states[at].made < states[at].total for at in ended), "it says that it is done when it is"
    assert ready[-1] == (4, 2)


def test_a_model_that_reads_no_text_is_named_before_the_other_one_is_run(
    clip: LoadedModel, service: Service, scene: Upload
) -> None:
    unread = replace(clip, name="unread", title="Unread", tokenizer=NoTokenizer(290, 16))
    service.registry.bring("unread", Entry("Unread", None, None), unread)
    names = ("diffclip-scenes", "unread")
    with pytest.raises(StudioError, match=r"^Unread: .*no tokenizer here"):
        next(explain_all(service, scene, names, ["a cat"], Relevance(), control=True))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_control_is_the_same_method_on_the_model_run_with_a2_shuffled(
    service: Service, scene: Upload, method: Method
) -> None:
    names = ("clip-scenes", "diffclip-scenes")
    states = list(explain_all(service, scene, names, [TEXT], method, control=True))
    assert states[-1].made == states[-1].total, "what was said to be the cost is the cost"
    assert states[-1].ready == (2, 1)
    assert [state.ready for state in states].index((2, 0)) < [state.ready for state in states].index((2, 1))
    plain, found = states[-1].explanations
    assert plain.shuffled == ()
    assert len(found.shuffled) == 3
    model = found.look.model
    pixels, _ = model.preprocess(scene.image)
    for seed, run in enumerate(found.shuffled):
        with model.lock, intervene(model.vision, [ShuffledA2(seed)]):
            look = replace(found.look, embedding=model.encode_image(pixels[None]))
            expected = explained(look, scene.image, method)[0]
        assert run.cosine == pytest.approx(expected.cosine, abs=1e-6)
        values = expected.picture.values
        if isinstance(method, Relevance):  # its own hooks are the last to answer, and so must be told of the edits
            ids = model.tokenize([TEXT])
            gradients = map_gradients(model, pixels[None], ids, Choice(), Choice(), [ShuffledA2(seed)])
            assert gradients.vision is not None
            values = relevance(gradients.vision).patches[0].numpy()
        assert values is not None
        assert run.picture.values is not None
        assert found.picture.values is not None
        np.testing.assert_allclose(run.picture.values, values, atol=1e-6)
        assert not np.allclose(run.picture.values, found.picture.values, rtol=1e-2, atol=1e-7)


def test_what_is_all_zero_for_any_method_is_said(looks: tuple[Look, Look], scene: Upload) -> None:
    # The bare picture of a bare picture is itself: nothing changes on the way.
    flat = Upload(scene.image.resize((1, 1)).resize(scene.image.size), scene.file)
    found, _ = explained(looks[0], flat.image, IntegratedGradients(4))
    assert found.picture.message == NOTHING
