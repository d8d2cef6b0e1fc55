"""DIFF V2 against a float64 loop, against standard attention, and through recording, editing and saving."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from families import Family, family_of
from timm.layers.attention import Attention as TimmAttention
from tiny import tiny_config, tiny_model
from torch import Tensor, nn

from models import attention_maps, describe, load_model, record
from models.build import build_clip, differential_v2_twin
from models.checkpoints import CheckpointInfo, save_checkpoint
from models.diff_attention_v2 import DifferentialAttentionV2, DifferentialMultiheadAttentionV2
from models.errors import StudioError
from models.gradients import Choice, map_gradients
from models.intervention import AblateHeads, SetLambda, ShuffledA2, UniformA2, edited_maps, intervene
from models.projections import Projections, reconstruct
from models.projectors import project
from models.replacing import replacing
from models.tokenizer import DomainTokenizer

WIDTH, HEADS, TOKENS = 24, 3, 7
NAMES = ("ours, DIFF V2", "ours, DIFF V2, text", "ours, DIFF V2, in timm's ViT")


def v2(seed: int = 0) -> DifferentialAttentionV2:
    torch.manual_seed(seed)
    module = DifferentialAttentionV2(WIDTH, HEADS).double()
    nn.init.normal_(module.lambda_proj.weight, 0.0, 0.5)
    return module


def causal() -> Tensor:
    return torch.full((TOKENS, TOKENS), float("-inf"), dtype=torch.float64).triu(1)


def by_loop(module: DifferentialAttentionV2, x: Tensor, mask: Tensor | None) -> Tensor:
    """The formula written out head by head and query by query, sharing no code with the module."""
    p = {name: tensor.detach() for name, tensor in module.named_parameters()}
    d = WIDTH // HEADS
    result = torch.zeros_like(x)
    for b in range(len(x)):
        q = x[b] @ p["q_proj.weight"].T + p["q_proj.bias"]
        k = x[b] @ p["k_proj.weight"].T + p["k_proj.bias"]
        v = x[b] @ p["v_proj.weight"].T + p["v_proj.bias"]
        joined = torch.zeros(TOKENS, WIDTH, dtype=x.dtype)
        for head in range(HEADS):
            own = slice(head * d, (head + 1) * d)
            for i in range(TOKENS):
                read = []
                for member in (2 * head, 2 * head + 1):
                    scores = k[:, own] @ q[i, member * d : (member + 1) * d] / math.sqrt(d)
                    grown = torch.exp(scores if mask is None else scores + mask[i])
                    read.append((grown / grown.sum()) @ v[:, own])
                lam = 1 / (1 + math.exp(-float(x[b, i] @ p["lambda_proj.weight"][head])))
                joined[i, own] = read[0] - lam * read[1]
        result[b] = joined @ p["out_proj.weight"].T + p["out_proj.bias"]
    return result


@pytest.mark.parametrize("masked", [False, True], ids=["all keys", "causal"])
def test_output_equals_a_float64_loop_over_heads_and_queries(masked: bool) -> None:
    module, x = v2(), torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    mask = causal() if masked else None
    torch.testing.assert_close(module(x, mask), by_loop(module, x, mask), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("masked", [False, True], ids=["all keys", "causal"])
def test_every_gradient_of_the_one_call_is_that_of_the_two_maps(masked: bool) -> None:
    module, mask = v2(), causal() if masked else None
    x = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    target = torch.randn_like(x)
    inputs = [x.requires_grad_(), *module.parameters()]
    fast = torch.autograd.grad(((module(x, mask) - target) ** 2).sum(), inputs)
    projections = project(module, x, mask)
    explicit = reconstruct(projections, attention_maps(projections).weights)
    for one, other in zip(fast, torch.autograd.grad(((explicit - target) ** 2).sum(), inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
        assert float(one.abs().max()) > 0


def standard(kind: str) -> Any:
    torch.manual_seed(2)
    if kind == "timm":
        return TimmAttention(WIDTH, HEADS, qkv_bias=True)
    return nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)


def called(module: nn.Module, x: Tensor) -> Tensor:
    if isinstance(module, (nn.MultiheadAttention, DifferentialMultiheadAttentionV2)):
        return module(x, x, x, need_weights=False)[0]
    return module(x)


@pytest.mark.parametrize("kind", ["timm", "nn.MultiheadAttention"])
def test_with_lambda_at_zero_a_twin_is_the_attention_that_it_replaced(kind: str) -> None:
    plain = standard(kind)
    twin, x = differential_v2_twin(plain).requires_grad_(False), torch.randn(2, TOKENS, WIDTH)
    projections = project(twin, x)
    maps = attention_maps(projections)
    torch.testing.assert_close(reconstruct(projections, maps.a1), called(plain, x), rtol=1e-4, atol=1e-6)
    assert maps.lam is not None
    assert maps.a2 is not None
    assert torch.equal(maps.lam, torch.full((2, HEADS, TOKENS, 1), 0.5))
    assert float((maps.a1 - maps.a2).abs().max()) > 1e-3
    assert not torch.allclose(called(twin, x), called(plain, x), atol=1e-3)


def test_a_layer_has_as_many_weights_as_its_docstring_says() -> None:
    weights = sum(p.numel() for n, p in v2().named_parameters() if n.endswith("weight"))
    assert weights == 5 * WIDTH**2 + HEADS * WIDTH


def test_lambda_is_a_function_of_token_and_head_alone() -> None:
    module, x = v2(), torch.randn(1, TOKENS, WIDTH, dtype=torch.float64)
    lam = module.lam(x).detach()
    assert lam.shape == (1, HEADS, TOKENS, 1)
    assert float(lam.min()) > 0
    assert float(lam.max()) < 1
    order = torch.randperm(TOKENS)
    torch.testing.assert_close(module.lam(x[:, order]).detach(), lam[:, :, order])
    assert float(lam.std(1).min()) > 1e-3
    assert float(lam.std(2).min()) > 1e-3


def test_lambda_is_computed_in_float32_under_bfloat16_autocast() -> None:
    module, x = v2().float(), torch.randn(2, TOKENS, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        inside = module.lam(x)
        half = module(x)
    assert torch.equal(inside, module.lam(x))
    assert float((half.float() - module(x)).detach().abs().max()) < 0.05


def test_what_it_cannot_do_is_refused() -> None:
    module, x = DifferentialMultiheadAttentionV2(WIDTH, HEADS), torch.randn(1, TOKENS, WIDTH)
    with pytest.raises(StudioError, match="self-attention"):
        module(x, x.clone(), x)
    with pytest.raises(StudioError, match=r"record\(\)"):
        module(x, x, x, need_weights=True)
    with pytest.raises(StudioError, match=r"floating tensor of shape \(7, 7\)"):
        module(x, x, x, attn_mask=torch.zeros(TOKENS, TOKENS, dtype=torch.bool))
    with pytest.raises(StudioError, match="is_causal"):
        DifferentialAttentionV2(WIDTH, HEADS)(x, is_causal=True)
    with pytest.raises(StudioError, match="5 heads at width 24"):
        DifferentialAttentionV2(WIDTH, 5)


def recorded(family: Family) -> tuple[Tensor, list]:
    with record(family.tower) as recording:
        output = family.run()
    return output, list(recording)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_holds_maps_whose_rows_sum_to_one_minus_lambda(name: str) -> None:
    family = family_of(name)
    for projections in recorded(family)[1]:
        maps = attention_maps(projections)
        assert maps.lam is not None
        assert maps.lam.shape == (*maps.a1.shape[:3], 1)
        torch.testing.assert_close(maps.weights.sum(-1, keepdim=True), 1 - maps.lam)
        assert float(maps.lam.std()) > 1e-3
        assert projections.k.stride(2) == 0, "the shared keys are copied"


def test_keys_against_keys_give_one_map_twice_and_queries_do_not() -> None:
    projections = recorded(family_of(NAMES[0]))[1][0]
    keys, queries = (attention_maps(projections, source) for source in ("kk", "qq"))
    assert keys.a2 is not None
    assert queries.a2 is not None
    assert torch.equal(keys.a1, keys.a2)
    assert float((queries.a1 - queries.a2).abs().max()) > 1e-3


def first_queries_alone(projections: Projections, ablated: tuple[int, ...]) -> Tensor:
    """What standard attention of the first queries answers, with heads left out."""
    scores = projections.q[:, :, 0] @ projections.k[:, :, 0].transpose(-2, -1) * projections.scale
    heads = torch.softmax(scores if projections.mask is None else scores + projections.mask, -1) @ projections.v
    heads[:, ablated] = 0
    return projections.merge(heads)


@pytest.mark.parametrize("name", NAMES)
def test_lambda_set_to_zero_leaves_the_first_map_in_every_head_and_for_every_token(name: str) -> None:
    family = family_of(name)
    with intervene(family.tower, [SetLambda(0.0), AblateHeads((1,), layers=1)]):
        edited = family.run()
    functions = {0: partial(first_queries_alone, ablated=()), 1: partial(first_queries_alone, ablated=(1,))}
    with replacing(family.tower, functions):
        literal = family.run()
    torch.testing.assert_close(edited, literal, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(family.run(), edited, atol=1e-3)


def test_lambda_set_in_some_heads_leaves_that_of_the_others_to_their_tokens() -> None:
    family = family_of(NAMES[0])
    edits = [SetLambda(0.3, layers=1, heads=(0, 2))]
    _, own = recorded(family)
    maps = edited_maps(family.tower, edits, 1, own[1])
    assert maps.lam is not None
    assert maps.lam.shape == own[1].lam.shape
    assert torch.equal(maps.lam[:, 1::2], own[1].lam[:, 1::2])
    assert bool((maps.lam[:, ::2] == torch.tensor(0.3)).all())
    plain = family.run()
    for edit in (*edits, ShuffledA2(), UniformA2()):
        with intervene(family.tower, [edit]):
            assert not torch.allclose(family.run(), plain, atol=1e-4)
    assert torch.equal(family.run(), plain)


def test_the_gradient_of_a2_is_minus_lambda_of_its_token_times_that_of_the_weights(tokenizer: DomainTokenizer) -> None:
    model = tiny_model("differential_v2", tokenizer)
    for module in model.vision.attention:
        nn.init.normal_(module.lambda_proj.weight, 0.0, 0.5)  # type: ignore[union-attr, arg-type]
    pixels, ids = torch.randn(2, 3, 32, 32), model.tokenize(["a cat", "two dogs"])
    found = {part: map_gradients(model, pixels, ids, Choice(part)).vision for part in ("weights", "a2")}
    with record(model.vision) as recording:
        model.encode_image(pixels)
    weights, a2 = (found[part].layers[2].gradient for part in ("weights", "a2"))  # type: ignore[union-attr]
    lam = recording[2].lam
    assert lam is not None
    torch.testing.assert_close(a2, -lam * weights, rtol=1e-4, atol=1e-7)
    assert float(weights.abs().max()) > 1e-5


def test_a_model_is_built_described_saved_and_loaded(tokenizer: DomainTokenizer, tmp_path: Path) -> None:
    model = tiny_model("differential_v2", tokenizer)
    plain = tiny_model("standard", tokenizer)
    assert model.vision.differential
    assert model.text.differential
    assert model.vision.lambdas() is None
    assert model.vision.lambda_init is None
    assert (model.vision.heads, model.text.heads) == (plain.vision.heads, plain.text.heads)
    assert "a number for every token and head" in describe(model)["text lambda"]
    assert "differential attention, 4 heads" in describe(model)["vision"]
    info = CheckpointInfo("V2", "scenes", model.config, model.preprocess_settings)  # type: ignore[arg-type]
    save_checkpoint(tmp_path / "v2", model.module, info, tokenizer)  # type: ignore[arg-type]
    again = load_model(tmp_path / "v2")
    pixels = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(again.encode_image(pixels), model.encode_image(pixels), rtol=0.02, atol=0.02)
    assert again.vision.differential


def test_models_of_one_seed_share_everything_but_the_second_queries_and_lambda() -> None:
    plain, twin = (build_clip(tiny_config(kind, 290), 3).state_dict() for kind in ("standard", "differential_v2"))
    shared = {name for name in plain if ".attn." not in name}
    assert {name for name in twin if ".attn." not in name} == shared
    assert all(torch.equal(plain[name], twin[name]) for name in shared)
    block = "transformer.resblocks.1.attn."
    queries, keys, values = plain[f"{block}in_proj_weight"].chunk(3)
    assert torch.equal(twin[f"{block}k_proj.weight"], keys)
    assert torch.equal(twin[f"{block}v_proj.weight"], values)
    assert torch.equal(twin[f"{block}out_proj.weight"], plain[f"{block}out_proj.weight"])
    first, second = twin[f"{block}q_proj.weight"].unflatten(0, (4, 2, 6)).unbind(1)
    assert torch.equal(first.flatten(0, 1), queries)
    assert float(second.std()) == pytest.approx(float(queries.std()), rel=0.1)
    assert not torch.allclose(first, second, atol=1e-2)
