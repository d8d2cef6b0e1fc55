"""Q, K and V: for every type of attention, weights @ V is what the module answers, however it is called."""

import math

import open_clip
import pytest
import torch
from families import FAMILIES, family_of, randomised, resnet
from open_clip.model import CLIP
from open_clip.transformer import Attention as OpenClipAttention
from timm.layers.attention import Attention, AttentionRope
from timm.layers.diff_attention import DiffAttention
from torch import Tensor, nn

from models.build import make_differential, text_blocks, vision_blocks
from models.calls import Call, answer, pooled, read_call, tensor_of
from models.diff_attention import DifferentialAttention, constant_lambda
from models.diff_attention_v2 import DifferentialAttentionV2
from models.errors import UnsupportedAttentionError
from models.maps import attention_maps
from models.projections import reconstruct
from models.projectors import project
from models.recorder import TOLERANCE, record
from models.towers import text_tower, vision_tower

WIDTH, HEADS, TOKENS = 32, 4, 9


def tokens(batch: int = 2) -> Tensor:
    return torch.randn(batch, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))


def own_output(module: nn.Module, args: tuple, kwargs: dict | None = None) -> tuple[Tensor, Tensor]:
    """(what the module answers, what its projections give) for one call, without hooks."""
    kwargs = kwargs or {}
    output = module(*args, **kwargs)
    call = read_call(module, args, kwargs)
    projections = project(module, call.x, call.mask)
    return tensor_of(module, output), pooled(module, reconstruct(projections, attention_maps(projections).weights))


def assert_exact(module: nn.Module, args: tuple, kwargs: dict | None = None) -> None:
    theirs, ours = own_output(module, args, kwargs)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_weights_times_v_give_the_output_of_every_family_in_every_precision(name: str, dtype: torch.dtype) -> None:
    family = family_of(name)
    inputs = family.inputs.to(dtype) if family.inputs.is_floating_point() else family.inputs
    module = family.module.to(dtype)
    with record(family.tower) as recording:
        module(inputs)
    assert len(recording) >= 2
    for layer, projections in enumerate(recording):
        output = recording._layers[layer].output
        assert output.dtype == dtype
        again = reconstruct(projections, attention_maps(projections).weights)
        again = pooled(family.tower.attention[layer], again)
        torch.testing.assert_close(again.to(dtype), output, rtol=0, atol=TOLERANCE[dtype] * float(output.abs().max()))


@pytest.mark.parametrize("name", [name for name in FAMILIES if name.startswith("timm")])
def test_fused_attention_on_and_off_gives_the_same_maps(name: str) -> None:
    found = []
    for fused in (True, False):
        family = family_of(name)
        for module in family.tower.attention:
            module.fused_attn = fused  # type: ignore[assignment]
        with record(family.tower) as recording:
            family.run()
        found.append([attention_maps(projections).weights for projections in recording])
    for on, off in zip(*found, strict=True):
        torch.testing.assert_close(on, off, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_shapes_are_those_of_the_tower(name: str) -> None:
    family = family_of(name)
    with record(family.tower) as recording:
        family.run()
    for layer, p in enumerate(recording):
        maps = 2 if family.tower.differential else 1
        assert p.q.shape[:3] == p.k.shape[:3] == (2, family.tower.heads, maps)
        narrow = isinstance(family.tower.attention[layer], DifferentialAttentionV2)
        assert p.v.shape[-1] == (1 if narrow else maps) * p.q.shape[-1]
        assert p.scale == pytest.approx(p.q.shape[-1] ** -0.5)
        last = layer == family.tower.layers - 1
        assert p.pooling == (family.tower.pooled and last)
        if not p.pooling:
            assert p.q.shape[-2] == p.k.shape[-2] == family.tower.layout.tokens


def test_a_causal_text_tower_carries_its_mask_and_a_two_way_one_carries_none() -> None:
    masks = []
    for name in ("open_clip text", "open_clip two-way text"):
        family = family_of(name)
        with record(family.tower) as recording:
            family.run()
        masks.append(recording[0].mask)
    assert masks[0] is not None
    assert torch.equal(masks[0] == 0, torch.ones_like(masks[0], dtype=torch.bool).tril())
    assert masks[1] is None


def multihead(**options) -> nn.MultiheadAttention:
    module = nn.MultiheadAttention(WIDTH, HEADS, **({"batch_first": True} | options))
    return randomised(module)  # type: ignore[return-value]


CAUSAL = torch.full((TOKENS, TOKENS), float("-inf")).triu(1)
BLOCKED = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(2)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attn_mask": CAUSAL},
        {"attn_mask": BLOCKED},
        {"attn_mask": CAUSAL, "is_causal": True},
        {"attn_mask": CAUSAL.expand(2 * HEADS, -1, -1) * torch.linspace(1, 2, 8).view(-1, 1, 1)},
        {"attn_mask": torch.randn(2 * HEADS, TOKENS, TOKENS, generator=torch.Generator().manual_seed(2))},
        {"need_weights": True, "attn_mask": BLOCKED},
    ],
    ids=["none", "float", "bool", "causal hint", "causal a head", "a head", "with weights"],
)
def test_multihead_attention_is_read_under_every_calling_convention(batch_first: bool, options: dict) -> None:
    x = tokens() if batch_first else tokens().transpose(0, 1)
    assert_exact(multihead(batch_first=batch_first), (x, x, x), {"need_weights": False} | options)


def test_a_mask_in_its_place_among_the_arguments_is_found() -> None:
    x = tokens()
    assert_exact(multihead(), (x, x, x, None, False, CAUSAL))
    assert_exact(randomised(Attention(WIDTH, HEADS)), (x, CAUSAL))
    assert_exact(randomised(DifferentialAttention(WIDTH, HEADS)), (x, CAUSAL))


@pytest.mark.parametrize("kind", [Attention, DiffAttention])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"attn_mask": CAUSAL},
        {"attn_mask": ~BLOCKED},
        {"is_causal": True},
        {"attn_mask": (~BLOCKED).expand(2, 1, -1, -1)},
    ],
    ids=["float", "bool", "causal", "a picture"],
)
def test_timm_attention_is_read_under_every_kind_of_mask(kind: type[nn.Module], fused: bool, options: dict) -> None:
    module = randomised(kind(WIDTH, HEADS, qkv_bias=True))
    module.fused_attn = fused  # type: ignore[assignment]
    if kind is DiffAttention and not fused and "attn_mask" in options and options["attn_mask"].dim() == 4:
        options = {"attn_mask": options["attn_mask"].float().log()}
    assert_exact(module, (tokens(),), options)


def test_true_blocks_a_key_for_torch_and_allows_it_for_timm() -> None:
    x = tokens()
    ours = read_call(multihead(), (x, x, x), {"attn_mask": BLOCKED}).mask
    theirs = read_call(Attention(WIDTH, HEADS), (x,), {"attn_mask": BLOCKED}).mask
    assert ours is not None
    assert theirs is not None
    assert torch.equal(torch.isneginf(ours), BLOCKED)
    assert torch.equal(torch.isneginf(theirs), ~BLOCKED)


def test_timm_differential_attention_is_the_formula_written_out_in_float64() -> None:
    """softmax each, then subtract; lambda from its vectors; head norm; (1 - lambda_init)."""
    module = randomised(DiffAttention(WIDTH, HEADS, qkv_bias=True, depth=3)).double()
    x, d = tokens().double(), WIDTH // HEADS // 2
    qkv = x @ module.qkv.weight.T + module.qkv.bias
    q, k, v = qkv[..., :WIDTH], qkv[..., WIDTH : 2 * WIDTH], qkv[..., 2 * WIDTH :]
    init = 0.8 - 0.6 * math.exp(-0.9)
    lam = math.exp(float(module.lambda_q1 @ module.lambda_k1)) - math.exp(float(module.lambda_q2 @ module.lambda_k2))
    lam += init
    heads = []
    for head in range(HEADS):
        a = []
        for raw in (2 * head, 2 * head + 1):
            part = slice(raw * d, (raw + 1) * d)
            a.append(torch.softmax(q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(d), -1))
        mixed = (a[0] - lam * a[1]) @ v[..., 2 * d * head : 2 * d * (head + 1)]
        norm = mixed / (mixed.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        heads.append(norm * module.sub_norm.weight * (1 - init))
    literal = torch.cat(heads, -1) @ module.proj.weight.T + module.proj.bias
    projections = project(module, x)
    # timm works lambda out in float32.
    torch.testing.assert_close(module(x), literal, rtol=1e-5, atol=1e-6)
    again = reconstruct(projections, attention_maps(projections).weights)
    torch.testing.assert_close(again, literal, rtol=1e-5, atol=1e-6)


class Doubled(Attention):
    """Looks like timm's attention and computes something else."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        return 2 * super().forward(x, attn_mask, is_causal)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (nn.Linear(WIDTH, WIDTH), r"torch.*Linear is an attention module whose projections are not known"),
        (Doubled(WIDTH, HEADS), "Doubled is an attention module"),
        (AttentionRope(WIDTH, HEADS), "AttentionRope is an attention module"),
        (Attention(WIDTH, HEADS, gated=True), "gate"),
        (nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True), "key bias"),
        (nn.MultiheadAttention(WIDTH, HEADS, add_zero_attn=True), "zero attention"),
        (nn.MultiheadAttention(WIDTH, HEADS, kdim=8, vdim=8), "separate key widths"),
        (OpenClipAttention(WIDTH, HEADS, scaled_cosine=True), "scaled cosine"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_attention_that_is_not_known_is_refused_by_name(module: nn.Module, said: str) -> None:
    with pytest.raises(UnsupportedAttentionError, match=said):
        project(module, tokens())


def test_calls_that_are_not_covered_are_refused_and_say_why() -> None:
    x, module = tokens(), multihead()
    padding = torch.zeros(2, TOKENS, dtype=torch.bool)
    with pytest.raises(UnsupportedAttentionError, match="key_padding_mask"):
        read_call(module, (x, x, x), {"key_padding_mask": padding})
    with pytest.raises(UnsupportedAttentionError, match="only self-attention"):
        read_call(module, (x, x.clone(), x), {})
    with pytest.raises(UnsupportedAttentionError, match=r"shape \(9, 32\)"):
        read_call(module, (x[0], x[0], x[0]), {})
    with pytest.raises(UnsupportedAttentionError, match="a NoneType"):
        read_call(module, (None, None, None), {})
    with pytest.raises(UnsupportedAttentionError, match="rope"):
        read_call(AttentionRope(WIDTH, HEADS), (x,), {"rope": torch.zeros(1)})


def test_the_pooling_of_a_resnet_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedAttentionError, match=r"AttentionPool2d .* with a tensor of shape"):
        read_call(resnet().attnpool, (torch.zeros(1, 256, 2, 2),), {})
    with pytest.raises(UnsupportedAttentionError, match="AttentionPool2d is an attention module"):
        project(resnet().attnpool, tokens())


def test_an_answer_takes_the_form_that_the_module_gives() -> None:
    x = tokens()
    merged = torch.randn(2, TOKENS, WIDTH)
    first, last = multihead(), multihead(batch_first=False)
    pair = answer(first, merged, first(x, x, x, need_weights=False))
    assert torch.equal(pair[0], merged)
    assert pair[1] is None
    turned = x.transpose(0, 1)
    assert torch.equal(answer(last, merged, last(turned, turned, turned))[0], merged.transpose(0, 1))
    half = answer(first.half(), merged, (x.half(), None))[0]
    assert half.dtype == torch.float16


def test_a_pooling_head_keeps_its_first_query_or_the_mean_or_all() -> None:
    head = family_of("timm SigLIP").tower.attention[-1]
    merged = torch.randn(2, 3, WIDTH)
    assert torch.equal(pooled(head, merged), merged[:, 0])
    head.pool = "avg"  # type: ignore[assignment]
    assert torch.equal(pooled(head, merged), merged.mean(1))
    head.pool = ""  # type: ignore[assignment]
    assert torch.equal(pooled(head, merged), merged)


def test_projections_are_in_the_graph_where_gradients_are_on() -> None:
    x = tokens().requires_grad_()
    projections = project(multihead(), x)
    reconstruct(projections, attention_maps(projections).weights).sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).any())


def test_a_call_is_told_apart_from_its_module() -> None:
    x = tokens()
    call = read_call(Attention(WIDTH, HEADS), (), {"x": x, "is_causal": True})
    assert isinstance(call, Call)
    assert call.x is x
    assert call.mask is not None
    assert torch.equal(call.mask, CAUSAL)


@pytest.mark.slow
@pytest.mark.parametrize("differential", [False, True], ids=["CLIP", "DiffCLIP"])
@pytest.mark.parametrize("name", ["ViT-B-16", "ViT-L-14"])
def test_the_real_shapes_are_met_with_random_weights(name: str, differential: bool) -> None:
    clip = open_clip.create_model(name, pretrained=None)
    assert isinstance(clip, CLIP)
    if differential:
        for blocks in (vision_blocks(clip), text_blocks(clip)):
            make_differential(blocks, constant_lambda(0.8))
    clip.eval().requires_grad_(False)
    ids = torch.randint(1, 49407, (1, 77), generator=torch.Generator().manual_seed(0))
    runs = (
        (vision_tower(clip), clip.encode_image, torch.randn(1, 3, 224, 224)),
        (text_tower(clip), clip.encode_text, ids),
    )
    for tower, encode, inputs in runs:
        with record(tower) as recording:
            encode(inputs)
        for projections in recording:
            weights = attention_maps(projections).weights
            rows = torch.ones(1) if projections.lam is None else 1 - projections.lam.flatten()
            torch.testing.assert_close(weights.sum(-1), rows.expand(weights.shape[:-1]))
