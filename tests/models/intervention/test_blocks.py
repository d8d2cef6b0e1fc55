"""Blocks without residual or FFN: exactly what is left of them, in every family of blocks."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from families import FAMILIES, Family, family_of
from hooked import hooks_of, output_of
from timm.models.vision_transformer import ParallelScalingBlock
from torch import Tensor, nn

from models.errors import UnsupportedAttentionError
from models.intervention.edits import DropFFN, DropResidual, Edit
from models.intervention.run import intervene


def second_half(block: Any, x: Tensor) -> Tensor:
    norm = block.ln_2 if hasattr(block, "ln_2") else block.norm2
    scale = block.ls_2 if hasattr(block, "ls_2") else block.ls2
    return x + scale(block.mlp(norm(x)))


def check_blocks(family: Family) -> None:
    tower = family.tower
    last = len(tower.blocks) - 1
    block: Any = tower.blocks[last]
    first_scale = block.ls_1 if hasattr(block, "ls_1") else block.ls1
    branch = first_scale(output_of(tower.attention[last], family.run))
    given: list[Tensor] = []
    handle = block.register_forward_pre_hook(lambda module, args: given.append(args[0]))
    plain = output_of(block, family.run)
    handle.remove()
    (x,) = given
    torch.testing.assert_close(second_half(block, x + branch), plain, atol=0, rtol=0)
    expected: dict[tuple[Edit, ...], Tensor] = {
        (DropResidual(last),): second_half(block, branch),
        (DropFFN(last),): x + branch,
        (DropFFN(last), DropResidual(last)): branch,
    }
    for edits, wanted in expected.items():
        with intervene(tower, edits):
            assert torch.equal(output_of(block, family.run), wanted)
    assert hooks_of(family.module) == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_a_block_without_residual_or_ffn_is_what_is_left_of_it(name: str) -> None:
    check_blocks(family_of(name))


def test_a_layer_scale_stays_on_the_branch() -> None:
    family = family_of("timm ViT")
    block: Any = family.tower.blocks[-1]
    block.ls1, block.ls2 = _Scale(0.3), _Scale(-2.0)
    check_blocks(family)


class _Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def test_a_block_of_another_type_is_named() -> None:
    family = family_of("timm ViT")
    tower = replace(family.tower, blocks=(ParallelScalingBlock(32, 4), family.tower.blocks[1]))
    with pytest.raises(UnsupportedAttentionError, match="ParallelScalingBlock is a block whose residual"):
        intervene(tower, [DropFFN(0)]).__enter__()
    assert hooks_of(family.module) == 0
