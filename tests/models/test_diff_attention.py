"""Differential attention against timm's module, a float64 loop, and the published code's golden tensors."""

import math

import pytest
import torch
from timm.layers.diff_attention import DiffAttention

from models.attention_core import Explicit, Path, TwoCalls, Walk, differential_heads, path_for
from models.diff_attention import DifferentialAttention, DifferentialMultiheadAttention, depth_lambda
from models.errors import StudioError

# More than one tile, however many threads share the work.
SAMPLES = 7 * torch.get_num_threads()


def causal_mask(tokens: int) -> torch.Tensor:
    return torch.full((tokens, tokens), float("-inf")).triu(1)


def ours(width: int = 32, heads: int = 8, lambda_init: float = 0.8, seed: int = 0) -> DifferentialAttention:
    torch.manual_seed(seed)
    module = DifferentialAttention(width, heads, lambda_init).double()
    torch.nn.init.normal_(module.diff_norm.weight, 1.0, 0.2)
    return module


def as_timm(module: DifferentialAttention) -> DiffAttention:
    width = module.q_proj.in_features
    timm = DiffAttention(width, num_heads=module.pairs, qkv_bias=True).double()
    timm.lambda_init = module.lambda_init
    state = {
        "qkv.weight": torch.cat([module.q_proj.weight, module.k_proj.weight, module.v_proj.weight]),
        "qkv.bias": torch.cat([module.q_proj.bias, module.k_proj.bias, module.v_proj.bias]),
        "proj.weight": module.out_proj.weight,
        "proj.bias": module.out_proj.bias,
        "sub_norm.weight": module.diff_norm.weight,
        **{n: getattr(module, n) for n in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")},
    }
    timm.load_state_dict({name: tensor.detach() for name, tensor in state.items()})
    return timm


def by_loop(module: DifferentialAttention, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The formula written out head by head and query by query, sharing no code with the module."""
    p = {name: tensor.detach() for name, tensor in module.named_parameters()}
    batch, tokens, width = x.shape
    heads = module.num_heads
    d = width // heads
    lam = (
        math.exp(float(p["lambda_q1"] @ p["lambda_k1"]))
        - math.exp(float(p["lambda_q2"] @ p["lambda_k2"]))
        + module.lambda_init
    )
    result = torch.zeros_like(x)
    for b in range(batch):
        q = x[b] @ p["q_proj.weight"].T + p["q_proj.bias"]
        k = x[b] @ p["k_proj.weight"].T + p["k_proj.bias"]
        v = x[b] @ p["v_proj.weight"].T + p["v_proj.bias"]
        joined = []
        for pair in range(heads // 2):
            maps = []
            for member in (2 * pair, 2 * pair + 1):
                columns = slice(member * d, (member + 1) * d)
                rows = torch.zeros(tokens, tokens, dtype=x.dtype)
                for i in range(tokens):
                    scores = k[:, columns] @ q[i, columns] / math.sqrt(d)
                    scores = scores if mask is None else scores + mask[i]
                    grown = torch.exp(scores - scores.max())
                    rows[i] = grown / grown.sum()
                maps.append(rows)
            mixed = (maps[0] - lam * maps[1]) @ v[:, pair * 2 * d : (pair + 1) * 2 * d]
            mixed = mixed / torch.sqrt((mixed**2).mean(-1, keepdim=True) + 1e-5) * p["diff_norm.weight"]
            joined.append(mixed * (1 - module.lambda_init))
        result[b] = torch.cat(joined, -1) @ p["out_proj.weight"].T + p["out_proj.bias"]
    return result


@pytest.mark.parametrize("causal", [False, True], ids=["all keys", "causal"])
@pytest.mark.parametrize("lambda_init", [0.8, 0.2])
def test_output_equals_a_float64_loop_over_heads_and_queries(causal: bool, lambda_init: float) -> None:
    module, x = ours(lambda_init=lambda_init), torch.randn(2, 7, 32, dtype=torch.float64)
    mask = causal_mask(7).double() if causal else None
    torch.testing.assert_close(module(x, mask), by_loop(module, x, mask), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True], ids=["all keys", "causal"])
def test_output_and_every_gradient_equal_those_of_timm(causal: bool) -> None:
    module = ours()
    timm = as_timm(module)
    mask = causal_mask(9).double() if causal else None
    x = torch.randn(2, 9, 32, dtype=torch.float64, requires_grad=True)
    x2 = x.detach().clone().requires_grad_()
    out, out2 = module(x, mask), timm(x2, mask)
    # timm computes lambda in float32 even in a float64 module, so agreement ends there.
    torch.testing.assert_close(out, out2, rtol=1e-6, atol=1e-6)
    target = torch.randn_like(out)
    ((out - target) ** 2).sum().backward()
    ((out2 - target) ** 2).sum().backward()
    torch.testing.assert_close(x.grad, x2.grad, rtol=1e-5, atol=1e-5)
    assert timm.qkv.weight.grad is not None
    for name, part in zip(("q_proj", "k_proj", "v_proj"), timm.qkv.weight.grad.chunk(3), strict=True):
        torch.testing.assert_close(module.get_parameter(f"{name}.weight").grad, part, rtol=1e-5, atol=1e-5)
    for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
        torch.testing.assert_close(module.get_parameter(name).grad, timm.get_parameter(name).grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(module.diff_norm.weight.grad, timm.sub_norm.weight.grad, rtol=1e-5, atol=1e-5)


def explicitly(module: DifferentialAttention, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The module's output with both maps made as tensors, whatever the table says."""
    q, k, v = module.project(x)
    a1, a2 = torch.softmax(q @ k.transpose(-2, -1) * module.scale + (0 if mask is None else mask), -1).unbind(2)
    return module.merge((a1 - module.lam() * a2) @ v)


@pytest.mark.parametrize("causal", [False, True], ids=["all keys", "causal"])
def test_a_batch_of_many_tiles_gives_the_output_and_gradients_of_explicit_maps(causal: bool) -> None:
    module, x = ours(), torch.randn(SAMPLES, 65, 32, dtype=torch.float64, requires_grad=True)
    mask = causal_mask(65).double() if causal else None
    assert isinstance(path_for(module.project(x)[0], mask), Walk)
    wanted = (x, *module.parameters())
    out, expected = module(x, mask), explicitly(module, x, mask)
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-12)
    upstream = torch.randn_like(out)
    found, right = (torch.autograd.grad(result, wanted, upstream) for result in (out, expected))
    for ours_, theirs in zip(found, right, strict=True):
        torch.testing.assert_close(ours_, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("path", [Explicit(), TwoCalls(), Walk(None, 4000)], ids=["explicit", "two calls", "walk"])
def test_every_form_of_the_core_gives_the_module_of_the_published_formula(path: Path) -> None:
    module, x = ours(), torch.randn(3, 7, 32, dtype=torch.float64)
    q, k, v = module.project(x)
    heads = differential_heads(q, k, v, module.lam(), module.scale, causal_mask(7).double(), path)
    right = by_loop(module, x, causal_mask(7).double())
    torch.testing.assert_close(module.merge(heads), right, rtol=1e-10, atol=1e-12)


def test_maps_made_from_the_projections_give_the_output_of_a_walk_in_float32() -> None:
    module, x = ours(width=64).float(), torch.randn(2 * SAMPLES, 65, 64)
    with torch.no_grad():
        assert isinstance(path_for(module.project(x)[0], None), Walk)
        out, again = module(x), explicitly(module, x, None)
    assert float((out - again).abs().max() / out.abs().max()) < 1e-5


def test_frozen_weights_leave_the_gradient_of_the_input_as_it_is() -> None:
    module, x = ours(), torch.randn(SAMPLES, 65, 32, dtype=torch.float64, requires_grad=True)
    (free,) = torch.autograd.grad(module(x).square().sum(), x)
    (frozen,) = torch.autograd.grad(module.requires_grad_(False)(x).square().sum(), x)
    torch.testing.assert_close(free, frozen, rtol=1e-12, atol=1e-12)


def test_the_constructor_takes_the_names_that_timm_uses() -> None:
    module = DifferentialAttention(dim=32, num_heads=4, lambda_init=0.5, bias=False)
    assert module.pairs == 2
    assert {name.split(".")[0] for name, _ in module.named_parameters()} == {
        *("q_proj", "k_proj", "v_proj", "out_proj", "diff_norm"),
        *("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"),
    }


def test_equal_maps_give_the_output_of_plain_attention_with_head_norm() -> None:
    """With A2 = A1 the row is (1 - lambda) A1, and the head norm takes the factor away (but for its epsilon)."""
    module = ours()
    with torch.no_grad():
        for projection in (module.q_proj, module.k_proj):
            for pair in range(module.pairs):
                first = slice(pair * 2 * module.head_width, (pair * 2 + 1) * module.head_width)
                second = slice((pair * 2 + 1) * module.head_width, (pair * 2 + 2) * module.head_width)
                projection.weight[second] = projection.weight[first]
                projection.bias[second] = projection.bias[first]
    x = torch.randn(1, 5, 32, dtype=torch.float64)
    q, k, v = module.project(x)
    a1 = torch.softmax(q[:, :, 0] @ k[:, :, 0].transpose(-2, -1) * module.scale, -1)
    sign = 1.0 if float(module.lam().detach()) < 1 else -1.0
    torch.testing.assert_close(module(x), module.merge(sign * (a1 @ v)), rtol=1e-2, atol=1e-3)


def test_lambda_of_depth_follows_the_published_schedule() -> None:
    assert depth_lambda(0) == pytest.approx(0.2)
    assert depth_lambda(1) == pytest.approx(0.3555, abs=1e-4)
    assert depth_lambda(11) == pytest.approx(0.7779, abs=1e-4)


@pytest.mark.parametrize(("heads", "hint"), [(3, "choose 2 or 4"), (1, "choose 2"), (5, "4 or 6")])
def test_heads_that_cannot_be_paired_are_refused_with_the_nearest_counts(heads: int, hint: str) -> None:
    width = {3: 192, 1: 64, 5: 240}[heads]
    with pytest.raises(StudioError, match=hint):
        DifferentialAttention(width, heads)


def test_cross_attention_and_returned_weights_are_refused() -> None:
    module, x = DifferentialMultiheadAttention(32, 4), torch.randn(1, 3, 32)
    with pytest.raises(StudioError, match="self-attention"):
        module(x, x.clone(), x)
    with pytest.raises(StudioError, match=r"record\(\)"):
        module(x, x, x, need_weights=True)


@pytest.mark.parametrize("shape", [(2, 6, 32), (40, 65, 32)], ids=["one tile", "tiles"])
def test_softmax_and_lambda_stay_in_float32_under_bfloat16_autocast(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    module, x = DifferentialAttention(32, 4), torch.randn(shape)
    with torch.autocast("cpu", torch.bfloat16):
        half = module(x)
        assert module.lam().dtype == torch.float32
        half.float().square().mean().backward()
    slopes = [parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None]
    module.zero_grad()
    full = module(x)
    full.square().mean().backward()
    assert float((half.float() - full).detach().abs().max()) < 0.05
    for cast, parameter in zip(slopes, module.parameters(), strict=True):
        assert cast.dtype == torch.float32
        assert parameter.grad is not None
        assert float((cast - parameter.grad).norm()) < 0.05 * float(parameter.grad.norm()) + 1e-5
