"""Every form of the differential core against a float64 sum written out here; the walk's gradient; the table."""

import json
import math
from pathlib import Path as File

import pytest
import torch
from torch import Tensor

from models.attention_core import (
    PATHS,
    TILE_BYTES,
    Explicit,
    Path,
    TwoCalls,
    Walk,
    differential_heads,
    kind_of,
    multiplies_bfloat16,
    path_for,
)
from models.attention_walk import Tiling, tiling
from models.errors import StudioError

SCALE = 0.35
# Several samples a tile with a smaller last one; one sample; one pair of three, for B = 5, H = 3, N = 7.
TILES = {"samples": 5000, "sample": 2400, "pairs": 800}
FORMS: dict[str, Path] = {
    "explicit": Explicit(),
    "two calls": TwoCalls(),
    **{f"walk by {name}": Walk(None, size) for name, size in TILES.items()},
}
WALKS = [pytest.param(Walk(None, size), id=f"walk by {name}") for name, size in TILES.items()]


@pytest.fixture(autouse=True)
def one_thread() -> object:
    """The tiles grow with the threads, so the sizes above hold for one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield None
    torch.set_num_threads(before)


def tensors(
    batch: int = 5, pairs: int = 3, tokens: int = 7, width: int = 4, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Q, K, V as projections give them, views of (B, N, D) that want gradients, and lambda."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(3, batch, tokens, 2 * pairs * width, generator=random, dtype=torch.float64).to(dtype)
    q, k = (part.view(batch, tokens, pairs, 2, width).permute(0, 2, 3, 1, 4) for part in x[:2])
    v = x[2].view(batch, tokens, pairs, 2 * width).transpose(1, 2)
    lam = torch.tensor(0.7, dtype=torch.promote_types(dtype, torch.float32))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), lam.requires_grad_()


def causal(tokens: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.full((tokens, tokens), -math.inf, dtype=dtype).triu(1)


def by_sum(q: Tensor, k: Tensor, v: Tensor, lam: Tensor, mask: Tensor | None) -> Tensor:
    """The formula in float64 with einsum and exp, sharing no operation with the forms under test."""
    q, k, v, lam = (x.double() for x in (q, k, v, lam))
    grown = torch.einsum("bhmid,bhmjd->bhmij", q, k) * SCALE
    grown = torch.exp(grown if mask is None else grown + mask.double())
    maps = grown / grown.sum(-1, keepdim=True)
    return torch.einsum("bhij,bhje->bhie", maps[:, :, 0] - lam * maps[:, :, 1], v)


def core(leaves: tuple[Tensor, ...], mask: Tensor | None, path: Path) -> Tensor:
    q, k, v, lam = leaves
    return differential_heads(q, k, v, lam, SCALE, mask, path)


def gradients(out: Tensor, leaves: tuple[Tensor, ...], seed: int = 1) -> tuple[Tensor, ...]:
    # Rounded, so that it is the same upstream gradient in every dtype.
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).bfloat16()
    return torch.autograd.grad(out, leaves, upstream.to(out.dtype))


@pytest.mark.parametrize("masked", [False, True], ids=["all keys", "causal"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_heads_and_gradients_of_the_sum(name: str, masked: bool) -> None:
    leaves = tensors()
    mask = causal(7) if masked else None
    out, expected = core(leaves, mask, FORMS[name]), by_sum(*leaves, mask)
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-12)
    for ours, theirs in zip(gradients(out, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("masked", [False, True], ids=["all keys", "causal"])
@pytest.mark.parametrize("path", WALKS)
def test_the_gradient_of_the_walk_is_that_of_finite_differences(path: Walk, masked: bool) -> None:
    leaves = tensors(batch=2, pairs=2, tokens=3, width=2)
    mask = causal(3) if masked else None
    tight = Walk(None, path.tile_bytes // 8)
    assert torch.autograd.gradcheck(lambda *xs: core(xs, mask, tight), leaves)


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1, 1), (1, 2, 13, 3), (3, 1, 5, 8), (2, 3, 65, 32), (0, 2, 4, 3)],
    ids=lambda s: "x".join(map(str, s)),
)
@pytest.mark.parametrize("size", [1, 10_000, TILE_BYTES])
def test_the_walk_takes_any_shape_in_float32(shape: tuple[int, int, int, int], size: int) -> None:
    leaves = tensors(*shape, dtype=torch.float32)
    out, expected = core(leaves, None, Walk(None, size)), by_sum(*leaves, None)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(gradients(out, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("matmul", [torch.float32, torch.bfloat16], ids=["widened", "as given"])
def test_a_bfloat16_walk_stays_within_bfloat16_of_the_sum(matmul: torch.dtype) -> None:
    leaves = tensors(dtype=torch.bfloat16)
    mask = causal(7, torch.float32)
    out, expected = core(leaves, mask, Walk(matmul, 2400)), by_sum(*leaves, mask)
    assert out.dtype == torch.bfloat16
    # Eight bits: widened products round once, at the end; products of rounded maps and slopes a few times.
    room = 2**-8 if matmul == torch.float32 else 2**-5
    pairs = zip((out, *gradients(out, leaves)), (expected, *gradients(expected, leaves)), strict=True)
    for ours, theirs in pairs:
        ours, theirs = ours.detach().double(), theirs.detach().double()
        assert float((ours - theirs).abs().max()) <= room * float(theirs.abs().max())


def test_autocast_does_not_reach_into_the_walk() -> None:
    leaves = tensors(dtype=torch.float32)
    path = Walk(None, 2400)
    plain = core(leaves, None, path)
    before = gradients(plain, leaves)
    with torch.autocast("cpu", torch.bfloat16):
        cast = core(leaves, None, path)
        after = gradients(cast, leaves)
    assert torch.equal(plain, cast)
    assert all(map(torch.equal, before, after))


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (3,), (0, 3), (1, 2), (2, 3)])
def test_inputs_that_want_no_gradient_get_none_and_change_no_other(wanted: tuple[int, ...]) -> None:
    leaves = tensors()
    path = Walk(None, 800)
    all_four = gradients(core(leaves, None, path), leaves)
    some = tuple(x.detach().requires_grad_(i in wanted) for i, x in enumerate(leaves))
    out = core(some, None, path)
    found = gradients(out, tuple(some[i] for i in wanted))
    assert all(torch.equal(one, all_four[i]) for one, i in zip(found, wanted, strict=True))


def test_the_walk_keeps_nothing_where_no_gradient_is_wanted() -> None:
    leaves = tensors()
    path = Walk(None, 2400)
    with_graph = core(leaves, None, path)
    with torch.no_grad():
        quiet = core(leaves, None, path)
    frozen = core(tuple(x.detach() for x in leaves), None, path)
    assert with_graph.grad_fn is not None
    assert quiet.grad_fn is None
    assert frozen.grad_fn is None
    assert torch.equal(with_graph, quiet)
    assert torch.equal(with_graph, frozen)


def test_a_graph_can_be_gone_back_through_twice() -> None:
    leaves = tensors()
    out = core(leaves, None, Walk(None, 2400))
    first = torch.autograd.grad(out.sum(), leaves, retain_graph=True)
    second = torch.autograd.grad(out.sum(), leaves)
    assert all(map(torch.equal, first, second))


def test_one_tensor_in_three_places_gets_the_sum_of_its_gradients() -> None:
    q, _, _, lam = tensors()
    wide = q.detach().flatten(2, 3)[:, :, :7].repeat(1, 1, 1, 2).requires_grad_()
    outs = [differential_heads(q, q, wide, lam, SCALE, None, path) for path in (Walk(None, 2400), Explicit())]
    walked, plain = (gradients(out, (q, wide, lam)) for out in outs)
    for ours, theirs in zip(walked, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)


def test_a_gradient_of_the_gradient_is_refused_by_the_walk() -> None:
    leaves = tensors()
    out = core(leaves, None, Walk(None, 2400))
    (slope,) = torch.autograd.grad(out.square().sum(), leaves[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize("path", WALKS)
def test_the_same_tensors_give_the_same_bits(path: Walk) -> None:
    runs = []
    for _ in range(3):
        leaves = tensors(dtype=torch.float32)
        out = core(leaves, None, path)
        runs.append((out, *gradients(out, leaves)))
    for again in runs[1:]:
        assert all(map(torch.equal, runs[0], again))


def test_layout_in_memory_does_not_change_the_heads() -> None:
    leaves = tensors()
    path = Walk(None, 2400)
    strided = core(leaves, None, path)
    packed = core(tuple(x.detach().contiguous().requires_grad_() for x in leaves), None, path)
    torch.testing.assert_close(strided, packed, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["samples", "sample", "pairs"])
def test_a_tile_is_as_many_samples_as_fit_or_some_pairs_of_one(name: str) -> None:
    q = tensors()[0]
    how = tiling(q, TILES[name])
    assert how == {"samples": Tiling(2, 3), "sample": Tiling(1, 3), "pairs": Tiling(1, 1)}[name]


def test_a_tile_grows_with_the_threads() -> None:
    q = tensors()[0]
    torch.set_num_threads(2)
    assert tiling(q, TILES["sample"]) == Tiling(2, 3)


def test_a_tile_of_no_bytes_is_refused() -> None:
    with pytest.raises(StudioError, match="positive number"):
        core(tensors(), None, Walk(None, 0))


@pytest.mark.parametrize(
    "mask",
    [torch.zeros(7, 6), torch.zeros(5, 1, 7, 7), torch.ones(7, 7, dtype=torch.bool)],
    ids=["other keys", "one a sample", "bool"],
)
def test_a_mask_that_is_not_added_to_all_scores_alike_is_refused(mask: Tensor) -> None:
    for path in FORMS.values():
        with pytest.raises(StudioError, match="floating tensor of shape \\(7, 7\\)"):
            core(tensors(), mask, path)


def test_the_table_decides_by_device_dtype_and_what_there_is_to_do() -> None:
    large, small = torch.empty(16, 6, 2, 197, 64), torch.empty(2, 2, 2, 17, 32)
    assert path_for(large, None) == PATHS["cpu float32", "tiles"]
    assert path_for(small, None) == PATHS["cpu float32", "one tile"]
    assert path_for(large.double(), None) == PATHS["cpu float64", "tiles"]
    kind = "cpu bfloat16" if multiplies_bfloat16() else "cpu bfloat16 emulated"
    assert path_for(large.bfloat16(), None) == PATHS[kind, "tiles"]
    assert path_for(large.half(), None) == Explicit()
    assert kind_of(torch.device("cuda"), torch.float32) == "cuda"
    assert kind_of(torch.device("mps"), torch.float32) is None


def test_a_mask_that_learns_gets_its_gradient() -> None:
    leaves = tensors(batch=1000, dtype=torch.float32)
    mask = torch.zeros(7, 7, requires_grad=True)
    assert isinstance(path_for(leaves[0], mask.detach()), Walk)
    out = core(leaves, mask, path_for(leaves[0], mask))
    assert float(gradients(out, (mask,))[0].abs().max()) > 0


def test_every_measured_row_of_the_table_is_the_fastest_that_was_measured() -> None:
    results = File(__file__).parents[2] / "benchmarks" / "results" / "attention.json"
    measured = json.loads(results.read_text(encoding="utf-8"))["paths"]
    rows = {(row["kind"], row["work"]): row for row in measured}
    assert set(rows) == {key for key in PATHS if key[0] not in ("cuda", "cpu bfloat16")}
    for key, row in rows.items():
        assert row["taken"] == repr(PATHS[key])
        # Forms within a tenth of each other are not told apart on a shared machine.
        assert row["milliseconds"][row["taken"]] <= 1.1 * min(row["milliseconds"].values()), key
