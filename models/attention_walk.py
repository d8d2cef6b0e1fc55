"""Differential attention in pieces that fit a processor's caches, with its gradient written out.

Ordinary autograd makes every (N, N) intermediate for the whole batch, so each is written to memory and read back
several times. Here the batch is walked in tiles, a few samples or a few head pairs of one sample, and all steps are
done for a tile before the next is begun. With W = A1 - lambda A2 and O = W V, for the gradient G of O:

    dV = W^T G    P = G V^T    r_i = rowsum(A_i * P)    dS_1 = A1 * (P - r_1)    dS_2 = -lambda A2 * (P - r_2)
    dlambda = -sum(r_2)        dQ_i = scale dS_i K_i    dK_i = scale dS_i^T Q_i

A1 and A2 are kept from the forward pass; autograd keeps W as well. Nothing is approximated, and the order of every sum
follows from the shapes and the number of threads alone.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.errors import StudioError


@dataclass(frozen=True)
class Tiling:
    """How a batch is cut: `samples` whole samples a tile, or where not even one fits, `pairs` head pairs of one."""

    samples: int
    pairs: int


def tiling(q: Tensor, tile_bytes: int) -> Tiling:
    """The tiles of q (B, H, 2, N, d) for which A1 and A2 take `tile_bytes` for each thread, if one pair's do not more.

    Raises:
        StudioError: a size that is not positive.
    """
    if tile_bytes < 1:
        raise StudioError(f"A tile of {tile_bytes} bytes holds no map: give a positive number of bytes.")
    batch, pairs, _, tokens, _ = q.shape
    budget, one = tile_bytes * torch.get_num_threads(), max(1, 2 * tokens * tokens * _wide(q.dtype).itemsize)
    return Tiling(_even(batch, budget // (one * pairs)), _even(pairs, budget // one))


def walk(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lam: Tensor,
    scale: float,
    mask: Tensor | None,
    matmul: torch.dtype,
    tile_bytes: int,
) -> Tensor:
    """(A1 - lambda A2) V tile by tile: Q, K (B, H, 2, N, d), V (B, H, N, e), a scalar -> (B, H, N, e) in V's dtype.

    `matmul` is the dtype of the matrix products' operands, Q's own or float32 or wider. Maps, sums and the gradient of
    lambda are in float32 or wider. Autocast does not reach inside: the dtypes given are the dtypes meant. `mask` (N, N)
    is added to the scores and gets no gradient; a gradient of the gradient is refused by PyTorch.
    """
    how = tiling(q, tile_bytes)
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, lam)):
        return _Walk.apply(q, k, v, lam, scale, mask, matmul, how)  # pyright: ignore[reportReturnType]
    return _forward(q, k, v, lam, scale, mask, matmul, how, None)


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lam: Tensor,
        scale: float,
        mask: Tensor | None,
        matmul: torch.dtype,
        how: Tiling,
    ) -> Tensor:
        kept: list[Tensor] = []
        heads = _forward(q, k, v, lam, scale, mask, matmul, how, kept)
        ctx.save_for_backward(lam, *kept)
        ctx.like = tuple((x.shape, x.dtype) for x in (q, k, v))
        ctx.scale, ctx.how = scale, how
        return heads

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        lam, *kept = ctx.saved_tensors
        need_q, need_k, need_v, need_lam = ctx.needs_input_grad[:4]
        wanted = (need_q, need_k, need_v)
        grads = [
            _by_token(shape, dtype, grad.device) if want else None
            for (shape, dtype), want in zip(ctx.like, wanted, strict=True)
        ]
        with torch.autocast(grad.device.type, enabled=False):
            dlam = _backward(grad, lam, kept, ctx.scale, ctx.how, grads, need_lam)
        return *grads, dlam, None, None, None, None


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lam: Tensor,
    scale: float,
    mask: Tensor | None,
    matmul: torch.dtype,
    how: Tiling,
    kept: list[Tensor] | None,
) -> Tensor:
    """The heads' output; appends Q, K, V as multiplied and the maps (n, 2, N, N) of each tile to `kept`.

    One tensor for the maps of all tiles would go back to the system after every step and be paid for page by page.
    """
    heads = _by_token(v.shape, v.dtype, v.device)
    rooms, lam = _Rooms(q.shape[-2], _wide(q.dtype)), lam.to(_wide(q.dtype))
    sources = (_matrices(x, how, matmul) for x in (q, k, v))
    with torch.autocast(q.device.type, enabled=False):
        for queries, keys, values, out in zip(*sources, _places(heads, how), strict=True):
            room = rooms.of(len(values))
            _multiply(queries, keys.transpose(1, 2), scale, mask, out=room.flat)
            if kept is None:
                maps = torch.softmax(room.pairs, -1, out=room.maps)
            else:
                maps = torch.softmax(room.pairs, -1)
                kept += (queries, keys, values, maps)
            a1, a2 = maps.unbind(1)
            torch.addcmul(a1, a2, lam, value=-1, out=room.square)
            _place(out, room.square, values, 1.0, room)
    return heads


def _backward(
    grad: Tensor,
    lam: Tensor,
    kept: list[Tensor],
    scale: float,
    how: Tiling,
    grads: list[Tensor | None],
    need_lam: bool,
) -> Tensor | None:
    """Fills those of dQ, dK, dV that are not None; returns the gradient of lambda, None where it is not needed."""
    tokens, tiles = grad.shape[-2], len(kept) // 4
    wide = kept[3].dtype if kept else _wide(grad.dtype)
    rooms, factor, matmul = _Rooms(tokens, wide), lam.to(wide), kept[2].dtype if kept else wide
    opposite, second_sums = -factor, [torch.zeros(0, tokens, 1, dtype=wide)]
    need_queries, need_keys, need_values = (x is not None for x in grads)
    places = ((None,) * tiles if x is None else _places(x, how) for x in grads)
    parts = zip(
        _matrices(grad, how, matmul),
        *places,
        *(kept[i::4] for i in range(4)),
        strict=True,
    )
    for upstream, dq, dk, dv, queries, keys, values, maps in parts:
        room = rooms.of(len(values))
        if need_values:
            a1, a2 = maps.unbind(1)
            torch.addcmul(a1, a2, factor, value=-1, out=room.square)
            _place(dv, room.square.transpose(1, 2), upstream, 1.0, room)
        if not (need_queries or need_keys or need_lam):
            continue
        _multiply(upstream, values.transpose(1, 2), 1.0, None, out=room.square)
        torch.mul(maps, room.square.unsqueeze(1), out=room.pairs)
        sums = room.pairs.sum(-1, keepdim=True)
        second_sums.append(sums[:, 1])
        if not (need_queries or need_keys):
            continue
        room.pairs.addcmul_(maps, sums, value=-1)
        room.second.mul_(opposite)
        if need_queries:
            _place(dq, room.flat, keys, scale, room)
        if need_keys:
            _place(dk, room.flat.transpose(1, 2), queries, scale, room)
    return -torch.cat(second_sums).sum().to(lam.dtype) if need_lam else None


class _Room:
    """Buffers for a tile of n head pairs, and the views of them that every tile needs."""

    def __init__(self, pairs: int, tokens: int, dtype: torch.dtype) -> None:
        self.square = torch.empty(pairs, tokens, tokens, dtype=dtype)
        self.pairs = torch.empty(pairs, 2, tokens, tokens, dtype=dtype)
        self.flat = self.pairs.view(2 * pairs, tokens, tokens)
        self.second = self.pairs[:, 1]
        self._rows: dict[tuple[int, int], Tensor] = {}
        self._maps: Tensor | None = None

    @property
    def maps(self) -> Tensor:
        """For maps that are not kept."""
        if self._maps is None:
            self._maps = torch.empty_like(self.pairs)
        return self._maps

    def rows(self, count: int, width: int) -> Tensor:
        """For `count` matrices (N, width) on their way to where they belong."""
        if (count, width) not in self._rows:
            self._rows[count, width] = self.square.new_empty(count, self.square.shape[-1], width)
        return self._rows[count, width]


class _Rooms:
    """The rooms of one walk by size, used again for every tile so that they stay in the caches."""

    def __init__(self, tokens: int, dtype: torch.dtype) -> None:
        self._tokens, self._dtype = tokens, dtype
        self._rooms: dict[int, _Room] = {}

    def of(self, pairs: int) -> _Room:
        """The room of a tile of so many pairs."""
        if pairs not in self._rooms:
            self._rooms[pairs] = _Room(pairs, self._tokens, self._dtype)
        return self._rooms[pairs]


def _even(count: int, most: int) -> int:
    """The size of parts of at most `most`, as few and as equal as can be, and of one at least."""
    parts = math.ceil(count / max(1, most))
    return max(1, math.ceil(count / max(1, parts)))


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype of maps and sums."""
    return torch.promote_types(dtype, torch.float32)


def _by_token(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An empty (B, H, ..., N, w) whose memory is (B, N, H, ..., w), as the projections before and after want it."""
    batch, *heads, tokens, width = shape
    return torch.empty(batch, tokens, *heads, width, dtype=dtype, device=device).movedim(1, -2)


def _places(x: Tensor, how: Tiling) -> list[Tensor]:
    """x (B, H, N, w) or (B, H, 2, N, w) as views, one a tile: (n, N, w) of one sample, (b, n, N, w) of more."""
    merged = x.flatten(1, -3)
    if how.samples > 1:
        return list(merged.split(how.samples))
    size = how.pairs * (merged.shape[1] // x.shape[1])
    samples = merged.unbind(0)
    return list(samples) if size == merged.shape[1] else [part for sample in samples for part in sample.split(size)]


def _matrices(x: Tensor, how: Tiling, dtype: torch.dtype) -> list[Tensor]:
    """The same as (n, N, w) in `dtype`, copied only where strides or dtype ask for it."""
    places = _places(x, how)
    if how.samples > 1:
        places = [place.reshape(-1, *x.shape[-2:]) for place in places]
    return places if dtype == x.dtype else [place.to(dtype) for place in places]


def _place(tile: Tensor, a: Tensor, b: Tensor, factor: float, room: _Room) -> None:
    """tile = factor a @ b, for (n, N, N) @ (n, N, w) and a tile of n matrices that lie apart in memory."""
    rows = room.rows(len(b), b.shape[2])
    _multiply(a if a.dtype == b.dtype else a.to(b.dtype), b, factor, None, out=rows)
    tile.copy_(rows if tile.ndim == 3 else rows.view(tile.shape))


def _multiply(a: Tensor, b: Tensor, factor: float, added: Tensor | None, out: Tensor) -> None:
    """out = added + factor a @ b for (n, i, j) @ (n, j, k); operands narrower than `out` are multiplied as they are."""
    if a.dtype == out.dtype:
        start, beta = (out, 0) if added is None else (added.to(out.dtype), 1)
        torch.baddbmm(start, a, b, beta=beta, alpha=factor, out=out)
        return
    out.copy_(torch.bmm(a, b)).mul_(factor)
    if added is not None:
        out += added
