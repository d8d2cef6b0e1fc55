"""Relevance by Chefer et al.'s method written out in full, for the towers of open_clip's CLIP and of our DiffCLIP."""

from typing import Any

import torch
from torch import Tensor, nn

from models import LoadedModel


class Literal:
    """A CLIP or DiffCLIP of open_clip's written out in full, whose attention maps autograd sees.

    `order` is that of the keys of the vision tower's A2.
    """

    def __init__(self, model: LoadedModel, order: Tensor | None = None) -> None:
        self.clip: Any = model.module
        self.order = order
        self.maps: dict[str, list[dict[str, Tensor]]] = {"vision": [], "text": []}

    def similarity(self, pixels: Tensor, ids: Tensor) -> Tensor:
        image, text = self.image(pixels), self.text(ids)
        return ((image / image.norm(dim=-1, keepdim=True)) * (text / text.norm(dim=-1, keepdim=True))).sum(-1)

    def image(self, pixels: Tensor) -> Tensor:
        v = self.clip.visual
        x = v.conv1(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([v.class_embedding.expand(len(x), 1, -1), x], 1) + v.positional_embedding
        x = v.ln_pre(x)
        for block in v.transformer.resblocks:
            x = self.block(block, x, None, "vision")
        return v.ln_post(x)[:, 0] @ v.proj

    def text(self, ids: Tensor) -> Tensor:
        c = self.clip
        x = c.token_embedding(ids) + c.positional_embedding
        for block in c.transformer.resblocks:
            x = self.block(block, x, c.attn_mask, "text")
        return c.ln_final(x)[torch.arange(len(ids)), ids.argmax(-1)] @ c.text_projection

    def block(self, block, x: Tensor, mask: Tensor | None, side: str) -> Tensor:
        x = x + self.attention(block.attn, block.ln_1(x), mask, side)
        return x + block.mlp(block.ln_2(x))

    def attention(self, attn, x: Tensor, mask: Tensor | None, side: str) -> Tensor:
        if isinstance(attn, nn.MultiheadAttention):
            q, k, v = (x @ attn.in_proj_weight.T + attn.in_proj_bias).chunk(3, -1)
        else:
            q, k, v = attn.q_proj(x), attn.k_proj(x), attn.v_proj(x)
        d = q.shape[-1] // attn.num_heads
        raw = []
        for head in range(attn.num_heads):
            part = slice(head * d, (head + 1) * d)
            scores = q[..., part] @ k[..., part].transpose(1, 2) * d**-0.5
            raw.append(torch.softmax(scores if mask is None else scores + mask, -1))
        if isinstance(attn, nn.MultiheadAttention):
            a = self.keep({"weights": torch.stack(raw, 1)}, side)["weights"]
            heads = [a[:, head] @ v[..., head * d : (head + 1) * d] for head in range(attn.num_heads)]
        else:
            l1, l2 = torch.exp(attn.lambda_q1 @ attn.lambda_k1), torch.exp(attn.lambda_q2 @ attn.lambda_k2)
            second = torch.stack(raw[1::2], 1)
            if self.order is not None and side == "vision":
                second = second[..., self.order]
            kept = self.keep({"a1": torch.stack(raw[::2], 1), "a2": second}, side)
            lam = l1 - l2 + attn.lambda_init
            a = self.keep({"weights": kept["a1"] - lam * kept["a2"]}, side, kept)["weights"]
            heads = []
            for pair in range(attn.num_heads // 2):
                mixed = a[:, pair] @ v[..., 2 * d * pair : 2 * d * (pair + 1)]
                norm = mixed * torch.rsqrt(mixed.square().mean(-1, keepdim=True) + 1e-5) * attn.diff_norm.weight
                heads.append(norm * (1 - attn.lambda_init))
        return attn.out_proj(torch.cat(heads, -1))

    def keep(self, found: dict[str, Tensor], side: str, beside: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        for value in found.values():
            value.requires_grad_() if not value.requires_grad else value.retain_grad()
        if beside is None:
            self.maps[side].append(found)
        else:
            beside |= found
        return found


def literal_relevance(
    model: LoadedModel, pixels: Tensor, ids: Tensor, part: str, side: str, start: int, order: Tensor | None = None
) -> Tensor:
    """R of one tower, one picture at a time: later layers on the left, clamp, then mean over heads."""
    results = []
    for i in range(len(ids)):
        run = Literal(model, order)
        target = run.similarity(pixels[i : i + 1], ids[i : i + 1])[0]
        layers = [found[part] for found in run.maps[side]]
        grads = torch.autograd.grad(target, layers)
        total = torch.eye(layers[0].shape[-1])
        for a, g in list(zip(layers, grads, strict=True))[start:]:
            cam = (g[0] * a[0]).clamp(min=0).mean(0)
            total = total + cam @ total
        results.append(total.detach())
    return torch.stack(results)
