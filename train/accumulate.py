"""The gradient of a batch of pairs that is too large for one forward pass, exactly.

A contrastive loss does not split into a sum over parts: every sample is every other's negative. What does split is
the chain rule (Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021): all parts
are encoded without a graph, the loss and its gradients with respect to the embeddings are those of the whole batch, and
then each part is encoded again, with the random numbers of the first time, and handed the gradients of its embeddings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from models.build import ClipModule
from models.diff_attention import widen
from models.errors import StudioError
from train.distributed import World
from train.loss import GatheredLoss
from train.precision import computing_in
from train.rng import RngState, replayed, rng_state

Change = Callable[[Tensor], Tensor]
# Newer versions of PyTorch have another name for it.
_NAME = "forward_sync_buffers"
_BUFFERS_STAY: Mapping[str, Any] = {
    _NAME if _NAME in signature(DistributedDataParallel).parameters else "broadcast_buffers": False
}


def unchanged(tensor: Tensor) -> Tensor:
    """The tensor itself."""
    return tensor


@dataclass(frozen=True, eq=False)
class Samples:
    """One rank's pairs of a step, or a part of them.

    Attributes:
        pixels: (B, 3, height, width), as `Encoder.prepare` wants them.
        tokens: (B, N).
        valid: bool (B,); samples with False take part in no loss.
    """

    pixels: Tensor
    tokens: Tensor
    valid: Tensor

    def chunks(self, count: int) -> Iterator["Samples"]:
        """The samples in `count` parts of equal size, in order.

        Raises:
            StudioError: they cannot be split so.
        """
        size = len(self.valid)
        if count < 1 or size % count:
            raise StudioError(
                f"{size} samples a rank cannot be accumulated in {count} equal parts: choose a divisor of {size}."
            )
        for parts in zip(*(t.split(size // count) for t in (self.pixels, self.tokens, self.valid)), strict=True):
            yield Samples(*parts)


class Features(NamedTuple):
    """Unit embeddings (B, E) in float32 or wider, and the logarithm of the factor on their cosine similarity."""

    image: Tensor
    text: Tensor
    logit_scale: Tensor


class Towers(nn.Module):
    """A CLIP as one forward pass that uses all its parameters, which DistributedDataParallel asks for.

    The logit scale is a result of it and not read beside it, since DistributedDataParallel only averages the gradients
    of what its forward pass returned.
    """

    def __init__(self, clip: ClipModule) -> None:
        super().__init__()
        self.clip = clip

    def forward(self, pixels: Tensor, tokens: Tensor) -> Features:
        """Model input (B, 3, height, width) and token ids (B, N) -> features."""
        image = self.clip.encode_image(pixels, normalize=True)
        text = self.clip.encode_text(tokens, normalize=True)
        return Features(widen(image), widen(text), self.clip.logit_scale)


def parallel(world: World, clip: ClipModule) -> Towers | DistributedDataParallel:
    """The towers of a CLIP on the world's device; over several ranks, with rank 0's weights and averaged gradients.

    The CLIP itself stays what is saved and evaluated: its parameter names know nothing of the wrapping.
    """
    towers = Towers(clip.to(world.device))
    if world.size == 1:
        return towers
    ids = [world.device.index] if world.device.type == "cuda" else None
    # The only buffer is the causal mask, which no rank changes.
    return DistributedDataParallel(towers, device_ids=ids, gradient_as_bucket_view=True, **_BUFFERS_STAY)


@dataclass(frozen=True, eq=False)
class Encoder:
    """How samples become features.

    Attributes:
        world: this process.
        model: of `parallel`.
        autocast: what the towers compute in: float32 leaves every tensor's own type, bfloat16 and float16 narrow it.
        prepare: pixels as they come -> model input; called for one part at a time.
    """

    world: World
    model: Towers | DistributedDataParallel
    autocast: torch.dtype = torch.float32
    prepare: Change = unchanged

    @property
    def towers(self) -> Towers:
        """The model without the averaging of gradients."""
        return self.model.module if isinstance(self.model, DistributedDataParallel) else self.model

    def __call__(self, model: nn.Module, samples: Samples) -> Features:
        """The features of some samples by `model`, which is `self.model` or `self.towers`."""
        # A context of its own for each pass: what autocast narrowed without a graph must not serve one with a graph.
        with computing_in(self.autocast, self.world.device):
            return model(self.prepare(samples.pixels), samples.tokens)

    def averaging(self, now: bool) -> AbstractContextManager[object]:
        """A context in which backward averages the gradients over ranks, or only adds to this rank's own."""
        if now or not isinstance(self.model, DistributedDataParallel):
            return nullcontext()
        return self.model.no_sync()


@dataclass(frozen=True, eq=False)
class Backward:
    """What a backward pass leaves beside the gradients.

    Attributes:
        loss: scalar, the loss of the global batch, with the same bits on all ranks.
        valid: scalar, the number of valid samples of all ranks.
        states: the random generators before each part, for whoever has to see a forward pass again.
    """

    loss: Tensor
    valid: Tensor
    states: tuple[RngState, ...]


def backward(
    encoder: Encoder, gathered_loss: GatheredLoss, parts: Sequence[Samples], scale: Change = unchanged
) -> Backward:
    """Add the gradient of the global batch's loss to every parameter's `.grad`, averaged over ranks: a collective.

    One part is a plain forward and backward pass; with more, memory is that of one part and time is that of one more
    forward pass. `scale` multiplies what backward starts from, as GradScaler.scale does for float16.

    Raises:
        StudioError: ranks have batches of different sizes.
    """
    if len(parts) == 1:
        state = rng_state(encoder.world.device)
        loss = gathered_loss(encoder.world, *encoder(encoder.model, parts[0]), parts[0].valid)
        mean = loss.mean(encoder.world)
        scale(loss.share).backward()
        return Backward(mean, loss.valid, (state,))
    return _backward_in_parts(encoder, gathered_loss, parts, scale)


def _backward_in_parts(
    encoder: Encoder, gathered_loss: GatheredLoss, parts: Sequence[Samples], scale: Change
) -> Backward:
    states: list[RngState] = []
    encoded: list[Features] = []
    with torch.no_grad():
        for part in parts:
            states.append(rng_state(encoder.world.device))
            encoded.append(encoder(encoder.towers, part))
    leaves = Features(
        torch.cat([features.image for features in encoded]).requires_grad_(),
        torch.cat([features.text for features in encoded]).requires_grad_(),
        encoded[0].logit_scale.detach().requires_grad_(),
    )
    loss = gathered_loss(encoder.world, *leaves, torch.cat([part.valid for part in parts]))
    gradients = Features(*torch.autograd.grad(scale(loss.share), leaves))
    sizes = [len(part.valid) for part in parts]
    pieces = zip(gradients.image.split(sizes), gradients.text.split(sizes), strict=True)
    for number, (part, state, (image, text)) in enumerate(zip(parts, states, pieces, strict=True), start=1):
        last = number == len(parts)
        with encoder.averaging(last), replayed(state, encoder.world.device):
            features = encoder(encoder.model, part)
            pairs = [(features.image, image), (features.text, text)]
            if last:
                # Every part returns the one logit scale, whose gradient counts once.
                pairs.append((features.logit_scale, gradients.logit_scale))
            trained = [(output, gradient) for output, gradient in pairs if output.requires_grad]
            torch.autograd.backward([output for output, _ in trained], [gradient for _, gradient in trained])
    return Backward(loss.mean(encoder.world), loss.valid, tuple(states))
