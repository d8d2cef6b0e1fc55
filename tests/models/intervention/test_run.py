"""Interventions: the run that was asked for and no other, and gone without a trace."""

import copy
import math
import threading
from collections.abc import Generator
from contextlib import ExitStack

import pytest
import torch
import torch.nn.functional as F
from families import FAMILIES, family_of
from hooked import hooks_of, output_of
from torch import Tensor, nn

from models import LoadedModel, Normalizer, attention_maps, record
from models.diff_attention import DifferentialAttention
from models.errors import StudioError
from models.intervention.edits import (
    AblateHeads,
    DropFFN,
    DropResidual,
    Edit,
    Identity,
    MatchedEntropy,
    Neighbourhood,
    OtherA2,
    RandomMask,
    SetLambda,
    ShuffledA2,
    SupportOf,
    TopK,
    UseNormalizer,
    UseSource,
)
from models.intervention.run import edited_maps, intervene
from models.projections import reconstruct

ENTMAX = Normalizer(1.5)
TEXTS = ["a photo of a cat and two dogs", "keys"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "edit",
    [
        UseSource("qk"),
        UseSource(("qk", "qk"), "mean"),
        UseNormalizer(Normalizer()),
        UseNormalizer(Normalizer(torch.ones(4, 1, 1))),
        TopK(99),
        TopK(SupportOf(Normalizer())),
        RandomMask(99),
        MatchedEntropy(Normalizer()),
    ],
    ids=["qk", "mean of qk and qk", "softmax", "softmax a head", "all keys", "its support", "random of all", "entropy"],
)
def test_an_edit_to_what_the_model_does_anyway_changes_nothing(name: str, edit: Edit) -> None:
    family = family_of(name)
    if family.tower.heads == 2 and isinstance(edit, UseNormalizer) and isinstance(edit.normalizer.alpha, Tensor):
        edit = UseNormalizer(Normalizer(torch.ones(2, 1, 1)))
    plain = family.run()
    with intervene(family.tower, [edit]):
        again = family.run()
    assert float((again - plain).abs().max() / plain.abs().max()) < 1e-5


@pytest.mark.parametrize("name", FAMILIES)
def test_an_edit_of_any_layer_of_any_family_reaches_the_output(name: str) -> None:
    family = family_of(name)
    plain = family.run()
    for layer in range(family.tower.layers):
        with intervene(family.tower, [TopK(1, layer)]):
            assert float((family.run() - plain).abs().max() / plain.abs().max()) > 1e-4
    assert torch.equal(family.run(), plain)


def encode(model: LoadedModel, tower: str, pixels: Tensor) -> Tensor:
    return model.encode_image(pixels) if tower == "vision" else model.encode_text(model.tokenize(TEXTS))


@pytest.mark.parametrize("tower", ["vision", "text"])
def test_without_edits_there_is_no_hook_and_no_bit_changes(model: LoadedModel, pixels: Tensor, tower: str) -> None:
    plain = encode(model, tower, pixels)
    with intervene(getattr(model, tower), []):
        assert hooks_of(model.module) == 0
        assert torch.equal(encode(model, tower, pixels), plain)


def test_hooks_are_gone_after_success_and_when_the_forward_pass_raises(model: LoadedModel, pixels: Tensor) -> None:
    plain = model.encode_image(pixels)
    edits = [TopK(3), DropResidual(-1), DropFFN(0)]
    with intervene(model.vision, edits):
        assert hooks_of(model.module) > 0
        assert not torch.allclose(model.encode_image(pixels), plain, atol=1e-3)
    assert hooks_of(model.module) == 0
    with pytest.raises(RuntimeError), intervene(model.vision, edits):
        model.encode_image(pixels[:, :, :-8])
    assert hooks_of(model.module) == 0
    assert torch.equal(model.encode_image(pixels), plain)


def test_hooks_are_gone_when_an_edit_is_refused_or_a_generator_is_abandoned(model: LoadedModel, pixels: Tensor) -> None:
    with pytest.raises(StudioError), intervene(model.vision, [TopK(3), UseSource("qk", layers=7)]):
        pass

    def walk() -> Generator[Tensor, None, None]:
        with intervene(model.vision, [TopK(3), DropFFN(-1)]):
            yield model.encode_image(pixels)

    steps = walk()
    next(steps)
    steps.close()
    assert hooks_of(model.module) == 0


def test_only_the_thread_that_intervenes_is_changed(model: LoadedModel, pixels: Tensor) -> None:
    plain = model.encode_image(pixels)
    edits = [TopK(2), DropFFN(-1), DropResidual(-1)]
    with intervene(model.vision, edits):
        changed = model.encode_image(pixels)
    results: dict[str, Tensor] = {}
    gate = threading.Barrier(2, timeout=20)

    def one() -> None:
        with intervene(model.vision, edits):
            gate.wait()
            results["changed"] = model.encode_image(pixels)
            gate.wait()

    def other() -> None:
        gate.wait()
        results["plain"] = model.encode_image(pixels)
        gate.wait()

    threads = [threading.Thread(target=run) for run in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(results["changed"], changed)
    assert torch.equal(results["plain"], plain)


def test_layers_before_the_edited_one_run_bit_for_bit(model: LoadedModel, pixels: Tensor) -> None:
    with record(model.vision) as plain:
        model.encode_image(pixels)
    with record(model.vision) as changed, intervene(model.vision, [Identity(1)]):
        model.encode_image(pixels)
    assert torch.equal(plain[0].q, changed[0].q)
    assert torch.equal(plain[1].q, changed[1].q)
    assert not torch.allclose(plain[2].q, changed[2].q, atol=1e-3)


@pytest.mark.parametrize("tower", ["vision", "text"])
def test_lambda_set_to_its_own_value_agrees(diffclip: LoadedModel, pixels: Tensor, tower: str) -> None:
    plain, part = encode(diffclip, tower, pixels), getattr(diffclip, tower)
    lambdas = part.lambdas()
    edits = [SetLambda(lam if layer else (lam,) * part.heads, layer) for layer, lam in enumerate(lambdas)]
    with intervene(part, edits):
        torch.testing.assert_close(encode(diffclip, tower, pixels), plain, atol=1e-5, rtol=1e-5)


def test_a_pictures_own_a2_as_another_ones_changes_nothing(diffclip: LoadedModel, pixels: Tensor) -> None:
    with record(diffclip.vision) as recording:
        plain = diffclip.encode_image(pixels)
    with intervene(diffclip.vision, [OtherA2(recording)]):
        torch.testing.assert_close(diffclip.encode_image(pixels), plain, atol=1e-5, rtol=1e-5)


def literal_difference(module: DifferentialAttention, x: Tensor, lams: list[float], ablated: set[int]) -> Tensor:
    """Differential attention of x (N, D) in float64, written out head by head."""
    d, heads = module.head_width, []
    q, k, v = (F.linear(x, p.weight, p.bias) for p in (module.q_proj, module.k_proj, module.v_proj))
    for pair in range(module.pairs):
        maps = []
        for raw in (2 * pair, 2 * pair + 1):
            part = slice(raw * d, (raw + 1) * d)
            maps.append(torch.softmax(q[:, part] @ k[:, part].T / math.sqrt(d), -1))
        mixed = (maps[0] - lams[pair] * maps[1]) @ v[:, 2 * pair * d : 2 * (pair + 1) * d]
        normed = mixed / (mixed.square().mean(-1, keepdim=True) + 1e-5).sqrt() * module.diff_norm.weight
        heads.append(torch.zeros_like(normed) if pair in ablated else normed * (1 - module.lambda_init))
    return F.linear(torch.cat(heads, -1), module.out_proj.weight, module.out_proj.bias)


def test_lambda_a_head_and_ablated_heads_agree_with_a_literal_transcription(
    diffclip: LoadedModel, pixels: Tensor
) -> None:
    own = diffclip.vision.lambdas()
    assert own is not None
    with record(diffclip.vision) as recording, intervene(diffclip.vision, [TopK(5, layers=0)]):
        diffclip.encode_image(pixels)
    x = recording._layers[1].call.x.double()  # type: ignore[union-attr]
    module: DifferentialAttention = copy.deepcopy(diffclip.vision.attention[1]).double()  # type: ignore[assignment]
    cases: list[tuple[list[Edit], list[float], set[int]]] = [
        ([SetLambda(0.3, 1)], [0.3, 0.3], set()),
        ([SetLambda((0.0, 1.4), layers=1)], [0.0, 1.4], set()),
        ([SetLambda(-0.5, 1, heads=(1,))], [own[1], -0.5], set()),
        ([AblateHeads((1,), 1)], [own[1], own[1]], {1}),
        ([AblateHeads((0,), 1), SetLambda((9.0, 0.1), 1)], [9.0, 0.1], {0}),
    ]
    for edits, lams, ablated in cases:
        with intervene(diffclip.vision, [TopK(5, layers=0), *edits]):
            ours = output_of(diffclip.vision.attention[1], lambda: diffclip.encode_image(pixels))
        for picture in range(2):
            wanted = literal_difference(module, x[picture], lams, ablated)
            torch.testing.assert_close(ours[picture].double(), wanted, atol=2e-6, rtol=1e-5)


def test_lambda_zero_is_plain_a1_behind_the_same_norm_and_factor(diffclip: LoadedModel, pixels: Tensor) -> None:
    with record(diffclip.vision) as recording:
        diffclip.encode_image(pixels)
    a1 = attention_maps(recording[0]).a1
    with intervene(diffclip.vision, [SetLambda(0.0, 0)]):
        ours = output_of(diffclip.vision.attention[0], lambda: diffclip.encode_image(pixels))
    torch.testing.assert_close(ours, reconstruct(recording[0], a1), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(ours, reconstruct(recording[0], 7.3 * a1), atol=2e-3, rtol=1e-2)


def test_a_clip_without_any_head_answers_its_output_bias(clip: LoadedModel, pixels: Tensor) -> None:
    module: nn.MultiheadAttention = clip.vision.attention[1]  # type: ignore[assignment]
    with intervene(clip.vision, [AblateHeads((0, 1, 2, 3), 1)]):
        ours = output_of(module, lambda: clip.encode_image(pixels))
    torch.testing.assert_close(ours, module.out_proj.bias.expand_as(ours))


def test_identity_makes_every_token_its_own_value_in_both_kinds_of_head(model: LoadedModel, pixels: Tensor) -> None:
    with record(model.vision) as recording, intervene(model.vision, [Identity(1)]):
        ours = output_of(model.vision.attention[1], lambda: model.encode_image(pixels))
    torch.testing.assert_close(ours, recording[1].merge(recording[1].v), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("inside", [True, False])
def test_a_recording_of_a_changed_run_gives_the_maps_that_were_used(
    model: LoadedModel, pixels: Tensor, inside: bool
) -> None:
    edits: list[Edit] = [
        UseSource(("qq", "kk"), "mean", 1),
        RandomMask(SupportOf(ENTMAX), 4, 1),
        Neighbourhood(2.0, 1),
        AblateHeads((0,), 1),
        DropFFN(0),
    ]
    if model.vision.differential:
        edits += [SetLambda(0.5), ShuffledA2(1, layers=(0, 1))]
    with ExitStack() as stack:
        if inside:
            stack.enter_context(intervene(model.vision, edits))
        recording = stack.enter_context(record(model.vision))
        if not inside:
            stack.enter_context(intervene(model.vision, edits))
        output = output_of(model.vision.attention[1], lambda: model.encode_image(pixels))
    used = edited_maps(model.vision, edits, 1, recording[1])
    torch.testing.assert_close(reconstruct(recording[1], used.weights), output, atol=1e-6, rtol=1e-5)
    assert bool((used.weights[:, 0] == 0).all())
    assert bool((used.weights[:, 1:] == 0).any())
