"""Compiled blocks keep their names and their numbers."""

import pytest
import torch
from open_clip.model import CLIP
from pairs import farthest, gradients, random_samples, wide_clip
from torch.fx import GraphModule

from models.errors import StudioError
from train.accumulate import Encoder, backward, parallel
from train.compiling import compile_blocks
from train.distributed import World
from train.loss import full_loss

WORLD = World()


def gradients_in_parts(clip: CLIP) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    backward(Encoder(WORLD, parallel(WORLD, clip)), full_loss, tuple(random_samples(8).chunks(2)))
    return gradients(clip)


@pytest.mark.slow
def test_compiled_blocks_have_the_same_names_and_gradients_with_replayed_patch_dropout() -> None:
    graphs: list[GraphModule] = []

    def counting(graph: GraphModule, _: list[torch.Tensor]) -> GraphModule:
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    plain, clip = wide_clip(patch_dropout=0.5), wide_clip(patch_dropout=0.5)
    compile_blocks(clip, backend=counting)  # type: ignore[arg-type]
    assert list(clip.state_dict()) == list(plain.state_dict())
    assert farthest(gradients_in_parts(clip), gradients_in_parts(plain)) < 1e-12
    assert graphs


@pytest.mark.slow
def test_what_inductor_compiles_has_the_same_gradients() -> None:
    torch._dynamo.reset()
    plain, clip = wide_clip(patch_dropout=0.5), wide_clip(patch_dropout=0.5)
    compile_blocks(clip)
    assert farthest(gradients_in_parts(clip), gradients_in_parts(plain)) < 1e-10


def test_towers_without_blocks_are_refused() -> None:
    clip = wide_clip()
    clip.visual.transformer = clip.transformer = torch.nn.Identity()  # type: ignore[assignment]
    clip.visual.transformer.resblocks = clip.transformer.resblocks = torch.nn.ModuleList()  # type: ignore[assignment]
    with pytest.raises(StudioError, match="no transformer blocks to compile"):
        compile_blocks(clip)
