"""Attributions against captum's own one-call results, against what they must add up to, and in bounded batches."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import GradientShap, IntegratedGradients, LayerIntegratedGradients
from captum.attr import Occlusion as CaptumOcclusion
from hooked import hooks_of
from torch import Tensor

from models import LoadedModel
from studio.attribution import (
    FORWARD,
    WITH_GRADIENT,
    Steps,
    drained,
    grad_cam,
    gradient_shap,
    integrated_gradients,
    occlusion,
)
from studio.similarity import (
    Pair,
    Side,
    bare_picture,
    embedded_words,
    of_layer,
    of_pixels,
    of_words,
    pair_of,
    tokens_entering,
)

TEXT = "a photo of a cat"


@pytest.fixture
def pair(model: LoadedModel, pixels: Tensor) -> Pair:
    return pair_of(model, pixels[0], TEXT, model.encode_image(pixels[:1]))


def ended(steps: Steps[Any]) -> Any:
    results: list[Any] = []
    for _ in drained(steps, results):
        pass
    return results[0]


def watched(function: Callable[[Tensor], Tensor]) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    """The function, and the sizes of the batches that it was given."""
    sizes: list[int] = []

    def run(x: Tensor) -> Tensor:
        sizes.append(len(x))
        return function(x)

    return run, sizes


def test_pieces_of_the_line_give_what_captum_gives_for_all_of_it(pair: Pair) -> None:
    function, bare = of_pixels(pair), bare_picture(pair, "black")
    ours = ended(integrated_gradients(function, pair.pixels, bare, 32))
    whole: Any = IntegratedGradients(function).attribute(
        pair.pixels, baselines=bare, n_steps=32, internal_batch_size=8, method="gausslegendre"
    )
    assert torch.allclose(ours.values, whole, rtol=0, atol=1e-4 * float(whole.abs().max()))
    assert ours.end - ours.start == pytest.approx(float(whole.sum()), abs=1e-5)
    assert abs(ours.gap) < 1e-5


def test_the_gap_closes_with_more_steps(pair: Pair) -> None:
    function, bare = of_pixels(pair), bare_picture(pair, "blur")
    few, many = (ended(integrated_gradients(function, pair.pixels, bare, steps)) for steps in (4, 32))
    assert abs(many.gap) < abs(few.gap) / 100
    assert abs(many.gap) < 1e-5


def test_a_layer_is_integrated_as_captum_integrates_it(pair: Pair) -> None:
    bare = bare_picture(pair, "mean colour")
    tokens, start = (tokens_entering(pair, "vision", 1, picture) for picture in (pair.pixels, bare))
    ours = ended(integrated_gradients(of_layer(pair, "vision", 1), tokens, start, 32))
    method = LayerIntegratedGradients(of_pixels(pair), pair.model.vision.blocks[1])
    theirs: Any = method.attribute(
        pair.pixels, baselines=bare, n_steps=32, internal_batch_size=8, attribute_to_layer_input=True
    )
    assert torch.allclose(ours.values, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))


def test_a_layers_own_tokens_give_the_models_own_similarity(pair: Pair) -> None:
    sides: list[tuple[Side, Tensor]] = [("vision", pair.pixels), ("text", embedded_words(pair)[0])]
    for side, given in sides:
        for layer in range(pair.tower(side).layers):
            tokens = tokens_entering(pair, side, layer, given)
            assert float(of_layer(pair, side, layer)(tokens)) == pytest.approx(pair.cosine, abs=1e-5)
    assert float(of_words(pair)(embedded_words(pair)[0])) == pytest.approx(pair.cosine, abs=1e-5)


def test_other_tokens_change_the_similarity_and_leave_no_trace(pair: Pair) -> None:
    hooks = hooks_of(pair.model.module)
    tokens = tokens_entering(pair, "vision", 1, pair.pixels)
    assert float(of_layer(pair, "vision", 1)(tokens.flip(1))) != pytest.approx(pair.cosine, abs=1e-5)
    assert float(of_pixels(pair)(pair.pixels)) == pytest.approx(pair.cosine, abs=1e-6)
    assert hooks_of(pair.model.module) == hooks


def test_only_words_are_put_aside(pair: Pair) -> None:
    words, bare = embedded_words(pair)
    changed = (words != bare).any(-1)[0].nonzero().flatten().tolist()
    assert (pair.pieces[0], pair.pieces[-1]) == ("<start>", "<end>")
    assert changed == list(range(1, len(pair.pieces) - 1))


def test_occlusion_is_the_fall_when_a_patch_is_put_aside(pair: Pair) -> None:
    function, bare = of_pixels(pair), bare_picture(pair, "mean colour")
    bands = [(slice(top, top + 8), slice(0, 32)) for top in range(0, 32, 8)]
    ours = ended(occlusion(function, pair.pixels, bare, (8, 8), bands)).values
    whole: Any = CaptumOcclusion(function).attribute(
        pair.pixels, sliding_window_shapes=(3, 8, 8), strides=(3, 8, 8), baselines=bare
    )
    assert torch.allclose(ours, whole, atol=1e-6)
    changed = pair.pixels.clone()
    changed[..., 8:16, 16:24] = bare[..., 8:16, 16:24]
    assert float(ours[0, 0, 10, 20]) == pytest.approx(pair.cosine - float(function(changed)), abs=1e-5)


def test_gradient_shap_is_the_same_for_a_seed_and_leaves_the_random_state(pair: Pair) -> None:
    baselines = torch.cat([bare_picture(pair, "black"), bare_picture(pair, "blur")])
    np.random.seed(3)
    expected = np.random.RandomState(3).rand()
    before = torch.random.get_rng_state()
    first, again = (ended(gradient_shap(of_pixels(pair), pair.pixels, baselines, 10, seed=4)) for _ in range(2))
    other = ended(gradient_shap(of_pixels(pair), pair.pixels, baselines, 10, seed=5))
    assert torch.equal(first.values, again.values)
    assert not torch.equal(first.values, other.values)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert np.random.rand() == expected


def test_gradient_shap_is_the_mean_of_what_captum_draws_batch_by_batch(pair: Pair) -> None:
    function, baselines = of_pixels(pair), torch.cat([bare_picture(pair, "black"), bare_picture(pair, "blur")])
    ours = ended(gradient_shap(function, pair.pixels, baselines, 10, seed=4)).values
    expected = torch.zeros_like(ours)
    with torch.random.fork_rng(devices=[]):
        for seed, count in ((4, 4), (8, 4), (12, 2)):
            np.random.seed(seed)
            torch.manual_seed(seed)
            drawn: Any = GradientShap(function).attribute(pair.pixels, baselines=baselines, n_samples=count, stdevs=0.0)
            expected += drawn.detach() * count / 10
    assert torch.allclose(ours, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


def test_gradient_shap_comes_near_integrated_gradients_of_one_baseline(pair: Pair) -> None:
    bare = bare_picture(pair, "mean colour")
    exact = ended(integrated_gradients(of_pixels(pair), pair.pixels, bare, 32)).values
    drawn = ended(gradient_shap(of_pixels(pair), pair.pixels, bare, 64)).values
    assert float(torch.nn.functional.cosine_similarity(exact.flatten(), drawn.flatten(), dim=0)) > 0.98


def test_grad_cam_weighs_channels_by_their_mean_gradient_over_tokens(pair: Pair) -> None:
    function, counted = of_layer(pair, "vision", 1), slice(1, 17)
    tokens = tokens_entering(pair, "vision", 1, pair.pixels)
    leaf = tokens.clone().requires_grad_()
    gradient = torch.autograd.grad(function(leaf).sum(), leaf)[0][0, counted]
    expected = tokens[0, counted] @ gradient.mean(0)
    assert torch.allclose(ended(grad_cam(function, tokens, counted)), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["ig", "shap", "occlusion"])
def test_no_batch_is_larger_than_its_bound(pair: Pair, kind: str) -> None:
    function, sizes = watched(of_pixels(pair))
    bare = bare_picture(pair, "black")
    bands = [(slice(top, top + 8), slice(0, 32)) for top in range(0, 32, 8)]
    made = {
        "ig": lambda: integrated_gradients(function, pair.pixels, bare, 33),
        "shap": lambda: gradient_shap(function, pair.pixels, bare, 33),
        "occlusion": lambda: occlusion(function, pair.pixels, bare, (8, 8), bands),
    }[kind]
    results: list[Any] = []
    counted = sum(drained(made(), results))
    assert max(sizes) <= (FORWARD if kind == "occlusion" else WITH_GRADIENT)
    assert counted == sum(sizes)


def test_a_run_that_is_closed_makes_no_further_pass(pair: Pair) -> None:
    function, sizes = watched(of_pixels(pair))
    steps = integrated_gradients(function, pair.pixels, bare_picture(pair, "black"), 128)
    next(steps)
    next(steps)
    steps.close()
    assert sum(sizes) == 2 * WITH_GRADIENT


def test_bare_pictures_show_nothing_of_their_patches(pair: Pair) -> None:
    flat, blurred, black = (bare_picture(pair, name) for name in ("mean colour", "blur", "black"))
    assert torch.allclose(flat.std((-2, -1)), torch.zeros(1, 3), atol=1e-6)
    assert torch.allclose(flat.mean((-2, -1)), pair.pixels.mean((-2, -1)), atol=1e-5)
    assert float(blurred.std()) < 0.3 * float(pair.pixels.std())
    assert torch.allclose(black, torch.full_like(black, -2.0))


class _Held:
    """A tensor that autograd keeps for the way back."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def most_held(run: Callable[[], Any]) -> int:
    """Bytes that autograd held at most at once while a run was made."""
    now = most = 0

    def let_go(size: int) -> None:
        nonlocal now
        now -= size

    def hold(tensor: Tensor) -> _Held:
        nonlocal now, most
        held = _Held(tensor)
        now += tensor.nbytes
        most = max(most, now)
        weakref.finalize(held, let_go, tensor.nbytes)
        return held

    with torch.autograd.graph.saved_tensors_hooks(hold, lambda held: held.tensor):
        run()
    return most


def test_two_hundred_steps_hold_no_more_than_one_batch_of_them(pair: Pair) -> None:
    function, bare = of_pixels(pair), bare_picture(pair, "black")
    one, many = (
        most_held(lambda steps=steps: ended(integrated_gradients(function, pair.pixels, bare, steps)))
        for steps in (WITH_GRADIENT, 200)
    )
    together = most_held(lambda: function(pair.pixels.repeat(200, 1, 1, 1).requires_grad_()).sum().backward())
    assert 0 < many <= one
    assert together > 10 * one, "what all of them would hold at once"
