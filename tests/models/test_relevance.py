"""Relevance: against the method written out with autograd, against finite differences, and without a trace."""

import copy
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from families import siglip
from hooked import hooks_of
from literal_relevance import Literal, literal_relevance
from torch import Tensor, nn

from models import LoadedModel, attention_maps
from models.errors import RecordingError, StudioError, UndefinedMapError
from models.gradients import Choice, LayerGradient, MapPart, TowerGradients, map_gradients
from models.intervention import ShuffledA2
from models.layout import TokenGrid
from models.loaded import Tower
from models.projections import Projections, reconstruct
from models.relevance import Rule, relevance
from models.replacing import replacing
from models.statistics import patch_order
from models.towers import text_tower, vision_tower

ALL = Choice(layers=None)
QUADRANTS: tuple[Rule, ...] = ("++", "+-", "-+", "--")
MAPS: list[tuple[str, MapPart]] = [("clip", "weights"), *(("diffclip", part) for part in get_args(MapPart))]


@pytest.fixture
def ids(model: LoadedModel) -> Tensor:
    return model.tokenize(["a photo of a cat", "three keys above an anchor"])


@pytest.mark.parametrize("start", [0, -1], ids=["all layers", "last layer"])
@pytest.mark.parametrize(("kind", "part"), MAPS)
def test_relevance_is_the_published_method_written_out(
    request: pytest.FixtureRequest, pixels: Tensor, kind: str, part: MapPart, start: int
) -> None:
    model: LoadedModel = request.getfixturevalue(kind)
    ids = model.tokenize(["a photo of a cat", "three keys above an anchor"])
    choice = Choice(part, None if start == 0 else (-1,))
    gradients = map_gradients(model, pixels, ids, choice, choice)
    torch.testing.assert_close(gradients.similarity, Literal(model).similarity(pixels, ids).detach())
    assert gradients.vision is not None
    assert gradients.text is not None
    vision = literal_relevance(model, pixels, ids, part, "vision", start) - torch.eye(17)
    text = literal_relevance(model, pixels, ids, part, "text", start) - torch.eye(16)
    torch.testing.assert_close(relevance(gradients.vision).tokens, vision[:, 0], rtol=1e-3, atol=1e-7)
    torch.testing.assert_close(
        relevance(gradients.text).tokens, text[torch.arange(2), ids.argmax(-1)], rtol=1e-3, atol=1e-7
    )
    assert bool((vision[:, 0] > 0).any())


@pytest.mark.parametrize("start", [0, -1], ids=["all layers", "last layer"])
@pytest.mark.parametrize("part", get_args(MapPart))
def test_an_edited_tower_is_differentiated_as_it_is_run(
    diffclip: LoadedModel, pixels: Tensor, part: MapPart, start: int
) -> None:
    ids = diffclip.tokenize(["a photo of a cat", "three keys above an anchor"])
    order = patch_order(1, 17, torch.Generator().manual_seed(3))
    choice = Choice(part, None if start == 0 else (-1,))
    before = hooks_of(diffclip.module)
    found = map_gradients(diffclip, pixels, ids, choice, choice, [ShuffledA2(3)])
    assert hooks_of(diffclip.module) == before
    torch.testing.assert_close(found.similarity, Literal(diffclip, order).similarity(pixels, ids).detach())
    assert found.vision is not None
    expected = literal_relevance(diffclip, pixels, ids, part, "vision", start, order) - torch.eye(17)
    tokens = relevance(found.vision).tokens
    torch.testing.assert_close(tokens, expected[:, 0], rtol=1e-3, atol=1e-7)
    plain = map_gradients(diffclip, pixels, ids, choice, choice).vision
    assert plain is not None
    assert not torch.allclose(relevance(plain).tokens, tokens, rtol=1e-2)


def test_an_edit_that_does_not_fit_is_refused_before_anything_runs(clip: LoadedModel, pixels: Tensor) -> None:
    with pytest.raises(StudioError, match="has one map and no lambda"):
        map_gradients(clip, pixels, clip.tokenize(["a cat", "two dogs"]), edits=[ShuffledA2()])


def shifted(part: MapPart, step: Tensor) -> Callable[[Projections], Tensor]:
    def attend(projections: Projections) -> Tensor:
        maps = attention_maps(projections)
        if part == "weights":
            return reconstruct(projections, maps.weights + step)
        assert maps.a2 is not None
        assert maps.lam is not None
        a1, a2 = (maps.a1 + step, maps.a2) if part == "a1" else (maps.a1, maps.a2 + step)
        return reconstruct(projections, a1 - maps.lam * a2)

    return attend


@pytest.mark.parametrize(("kind", "part"), MAPS)
def test_gradients_are_those_of_finite_differences(
    request: pytest.FixtureRequest, pixels: Tensor, kind: str, part: MapPart
) -> None:
    model: LoadedModel = request.getfixturevalue(kind)
    module = copy.deepcopy(model.module).double()
    double = replace(model, module=module, vision=vision_tower(module), text=text_tower(module))
    ids, wide = model.tokenize(["a cat", "two dogs"]), pixels.double()
    choice = Choice(part, None)
    gradients = map_gradients(double, wide, ids, choice, Choice(layers=()))
    assert gradients.vision is not None
    text = F.normalize(double.module.encode_text(ids), dim=-1)
    for layer, entry in gradients.vision.layers.items():
        direction = torch.randn(entry.map.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(layer))
        values = []
        for size in (1e-5, -1e-5):
            change = shifted(part, size * direction)
            with torch.no_grad(), double.lock, replacing(double.vision, {layer: change}):
                values.append((F.normalize(double.module.encode_image(wide), dim=-1) * text).sum(-1))
        slope = (values[0] - values[1]) / 2e-5
        torch.testing.assert_close(slope, (entry.gradient * direction).sum((1, 2, 3)), rtol=1e-5, atol=1e-9)


def test_the_quadrants_sum_to_the_signed_contribution_of_every_layer(
    model: LoadedModel, pixels: Tensor, ids: Tensor
) -> None:
    gradients = map_gradients(model, pixels, ids, ALL, ALL)
    for tower in (gradients.vision, gradients.text):
        assert tower is not None
        parts = [relevance(tower, rule).contributions for rule in QUADRANTS]
        signed = relevance(tower, "signed").contributions
        for layer in tower.layers:
            torch.testing.assert_close(sum(part[layer] for part in parts), signed[layer])


def test_signs_are_told_apart(diffclip: LoadedModel, pixels: Tensor) -> None:
    ids = diffclip.tokenize(["a cat", "two dogs"])
    tower = map_gradients(diffclip, pixels, ids).vision
    assert tower is not None
    found = {rule: relevance(tower, rule).tokens for rule in (*QUADRANTS, "positive", "negative", "absolute", "signed")}
    torch.testing.assert_close(found["++"] + found["--"], found["positive"])
    torch.testing.assert_close(found["+-"] + found["-+"], -found["negative"])
    torch.testing.assert_close(found["positive"] - found["negative"], found["signed"])
    torch.testing.assert_close(found["positive"] + found["negative"], found["absolute"])
    for rule, sign in zip(QUADRANTS, (1, -1, -1, 1), strict=True):
        assert bool((sign * found[rule] >= 0).all())
        assert bool((found[rule] != 0).any()), f"{rule} is empty: nothing was told apart"


def test_a_map_without_negative_entries_has_two_empty_quadrants(clip: LoadedModel, pixels: Tensor) -> None:
    tower = map_gradients(clip, pixels, clip.tokenize(["a cat", "two dogs"])).vision
    assert tower is not None
    for rule in ("-+", "--"):
        result = relevance(tower, rule)
        assert torch.equal(result.blank, torch.tensor([True, True]))
        assert "pair 0, 1" in result.note


def test_the_rule_is_applied_before_the_mean_over_heads() -> None:
    tower = one_layer(torch.ones(1, 2, 2, 2), torch.tensor([1.0, -1.0]).view(1, 2, 1, 1).expand(1, 2, 2, 2))
    assert torch.equal(relevance(tower, "positive").contributions[0], torch.full((1, 2, 2), 0.5))
    assert torch.equal(relevance(tower, "signed").contributions[0], torch.zeros(1, 2, 2))


def one_layer(values: Tensor, gradient: Tensor) -> TowerGradients:
    tower = Tower("vision", (nn.Identity(),), 1, TokenGrid(1, 1, 1), None, (nn.Identity(),))
    return TowerGradients(tower, "weights", {0: LayerGradient(values, gradient, False)}, 2, torch.zeros(1).long())


def test_all_zero_relevance_is_zeros_with_a_note_and_what_is_not_finite_too() -> None:
    ones = torch.ones(1, 1, 2, 2)
    nothing = relevance(one_layer(ones, -ones))
    assert torch.equal(nothing.tokens, torch.zeros(1, 2))
    assert bool(nothing.blank.all())
    assert "No token of pair 0 has any relevance under the rule 'positive'" in nothing.note
    broken = relevance(one_layer(ones, ones * float("nan")))
    assert torch.equal(broken.tokens, torch.zeros(1, 2))
    assert "not finite" in broken.note
    seen = relevance(one_layer(ones, ones))
    assert seen.note == ""
    assert torch.equal(seen.tokens, torch.ones(1, 2))


def test_one_hot_in_the_last_layer_behind_layers_that_hold_still_is_the_relevance(
    model: LoadedModel, pixels: Tensor, ids: Tensor
) -> None:
    """Early layers that each look at themselves alone add what they have to themselves; the last layer decides."""
    tower = map_gradients(model, pixels, ids, ALL).vision
    assert tower is not None
    eye, ones = torch.eye(17).expand(2, 4, 17, 17), torch.ones(2, 4, 17, 17)
    hot = torch.zeros(2, 4, 17, 17)
    hot[..., 5] = 1.0
    still = {0: LayerGradient(eye, ones, False), 1: LayerGradient(hot, ones, False)}
    tokens = relevance(replace(tower, layers=still)).tokens
    assert torch.equal(tokens.argmax(-1), torch.tensor([5, 5]))
    assert torch.equal(tokens[:, 5], torch.full((2,), 2.0))
    assert torch.equal(tokens[:, 1], torch.zeros(2))


def test_only_the_row_that_is_read_out_has_a_gradient_in_the_last_layer(
    model: LoadedModel, pixels: Tensor, ids: Tensor
) -> None:
    gradients = map_gradients(model, pixels, ids)
    assert gradients.vision is not None
    assert gradients.text is not None
    for tower, rows in ((gradients.vision, torch.zeros(2).long()), (gradients.text, ids.argmax(-1))):
        (entry,) = tower.layers.values()
        for picture in (0, 1):
            carries = (entry.gradient[picture] != 0).any(-1).any(0)
            assert carries.nonzero().flatten().tolist() == [int(rows[picture])]


def test_the_text_behind_its_end_has_no_relevance(model: LoadedModel, pixels: Tensor, ids: Tensor) -> None:
    tower = map_gradients(model, pixels, ids, ALL, ALL).text
    assert tower is not None
    tokens = relevance(tower, "absolute").tokens
    for row, end in zip(tokens, ids.argmax(-1).tolist(), strict=True):
        assert torch.equal(row[end + 1 :], torch.zeros_like(row[end + 1 :]))
        assert bool((row[: end + 1] > 0).any())


def test_a_batch_is_the_same_as_one_pair_at_a_time(model: LoadedModel, pixels: Tensor, ids: Tensor) -> None:
    both = map_gradients(model, pixels, ids, ALL, ALL)
    assert both.vision is not None
    assert both.text is not None
    for i in (0, 1):
        one = map_gradients(model, pixels[i : i + 1], ids[i : i + 1], ALL, ALL)
        assert one.vision is not None
        assert one.text is not None
        for ours, theirs in ((one.vision, both.vision), (one.text, both.text)):
            torch.testing.assert_close(relevance(ours).tokens[0], relevance(theirs).tokens[i], rtol=1e-3, atol=1e-7)


def test_nothing_is_left_behind(model: LoadedModel, pixels: Tensor, ids: Tensor) -> None:
    before = model.encode_image(pixels), model.encode_text(ids)
    map_gradients(model, pixels, ids, ALL, ALL)
    assert hooks_of(model.module) == 0
    assert all(p.grad is None and not p.requires_grad for p in model.module.parameters())
    assert torch.equal(before[0], model.encode_image(pixels))
    assert torch.equal(before[1], model.encode_text(ids))
    with pytest.raises(RuntimeError):
        map_gradients(model, pixels[:, :, :-8], ids)
    assert hooks_of(model.module) == 0


def test_it_works_where_gradients_are_off_and_keeps_them_off(model: LoadedModel, pixels: Tensor, ids: Tensor) -> None:
    with torch.no_grad():
        gradients = map_gradients(model, pixels, ids)
        assert not torch.is_grad_enabled()
    assert gradients.vision is not None
    assert not gradients.similarity.requires_grad
    assert not relevance(gradients.vision).tokens.requires_grad


def test_two_threads_get_the_gradients_of_their_own_pictures(model: LoadedModel) -> None:
    ids = model.tokenize("a cat")
    pictures = [torch.full((1, 3, 32, 32), value) for value in (-0.5, 0.9)]
    alone = [map_gradients(model, picture, ids).similarity for picture in pictures]
    together: list[Tensor | None] = [None, None]

    def look(i: int) -> None:
        together[i] = map_gradients(model, pictures[i], ids).similarity

    threads = [threading.Thread(target=look, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ours, theirs in zip(together, alone, strict=True):
        assert ours is not None
        assert torch.equal(ours, theirs)
    assert not torch.equal(alone[0], alone[1])


def test_a_siglip_is_read_out_through_its_pooling_head(clip: LoadedModel, pixels: Tensor) -> None:
    model = siglip(clip)
    ids = torch.randint(1, 50, (2, 10), generator=torch.Generator().manual_seed(1))
    gradients = map_gradients(model, pixels, ids, Choice(layers=(1,)))
    tower = gradients.vision
    assert tower is not None
    assert tuple(tower.layers) == (1, 2), "the pooling head belongs to every choice"
    assert tower.readout is None
    result = relevance(tower, "signed")
    pool, block = result.contributions[2], result.contributions[1]
    torch.testing.assert_close(result.tokens, (pool + pool @ block)[:, 0])
    assert result.patches.shape == (2, 4, 4)
    alone = map_gradients(model, pixels, ids).vision
    assert alone is not None
    assert tuple(alone.layers) == (2,)
    torch.testing.assert_close(relevance(alone, "signed").tokens, pool[:, 0])
    image = model.module.encode_image(pixels)
    torch.testing.assert_close(gradients.similarity, F.cosine_similarity(image, model.module.encode_text(ids)))


def test_patches_are_the_grid_without_the_prefix(clip: LoadedModel, pixels: Tensor) -> None:
    gradients = map_gradients(clip, pixels, clip.tokenize(["a cat", "two dogs"]))
    assert gradients.vision is not None
    assert gradients.text is not None
    result = relevance(gradients.vision)
    assert torch.equal(result.patches.flatten(1), result.tokens[:, 1:])
    assert result.patches.shape == (2, 4, 4)
    with pytest.raises(StudioError, match="no patches"):
        _ = relevance(gradients.text).patches


def test_a_tower_without_attention_is_left_out_and_the_other_is_seen(clip: LoadedModel, pixels: Tensor) -> None:
    ids = clip.tokenize(["a cat", "two dogs"])
    bare = replace(clip, vision=replace(clip.vision, attention=(), blocks=(), reason="A ResNet has no attention."))
    gradients = map_gradients(bare, pixels, ids)
    assert gradients.vision is None
    assert gradients.text is not None
    torch.testing.assert_close(
        relevance(gradients.text).tokens,
        relevance(map_gradients(clip, pixels, ids).text).tokens,  # type: ignore[arg-type]
    )
    with pytest.raises(RecordingError, match="A ResNet has no attention"):
        map_gradients(bare, pixels, ids, text=Choice(layers=()))


def test_what_does_not_fit_gets_a_sentence(clip: LoadedModel, pixels: Tensor) -> None:
    ids = clip.tokenize(["a cat", "two dogs"])
    with pytest.raises(StudioError, match="2 pictures and 1 texts"):
        map_gradients(clip, pixels, ids[:1])
    with pytest.raises(UndefinedMapError, match="one map and no A2"):
        map_gradients(clip, pixels, ids, Choice("a2"))
    with pytest.raises(UndefinedMapError, match="choose weights, a1 or a2"):
        map_gradients(clip, pixels, ids, Choice("subtracted"))  # type: ignore[arg-type]
    with pytest.raises(RecordingError, match="Layer 3 does not exist in the vision tower: choose 0-2"):
        map_gradients(clip, pixels, ids, Choice(layers=(3,)))
    gradients = map_gradients(clip, pixels, ids)
    assert gradients.vision is not None
    with pytest.raises(StudioError, match=r"choose among positive, .*--"):
        relevance(gradients.vision, "clamped")  # type: ignore[arg-type]
    assert hooks_of(clip.module) == 0
