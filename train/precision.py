"""What the towers compute in."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from train.config import RunConfig
from train.settings import Precision

NAMED = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_precision(precision: Precision, device: torch.device) -> torch.dtype:
    """The dtype of autocast: what was asked for, or for "auto" the narrowest that the device computes in soundly.

    A GPU from Ampere on has bfloat16, an older one float16. A processor without AVX512-BF16 or AMX emulates bfloat16,
    many times slower than float32.
    """
    if precision != "auto":
        return NAMED[precision]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if device.type == "cpu" and native else torch.float32


def stage_precision(config: RunConfig, index: int, device: torch.device) -> torch.dtype:
    """The dtype of autocast in stage `index`."""
    return resolve_precision(config.stages[index].precision or config.precision, device)


@contextmanager
def computing_in(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """A forward pass under autocast to `dtype`; float32 leaves every tensor's own type.

    On a processor the backward pass of SDPA's flash kernel is slow in bfloat16: with it half the time of a step of the
    CLIP of scenes goes there. So attention is there computed as written, which gave 266 pictures a second for 165 at
    65 tokens and as many at 197 (one thread of an AMD EPYC).
    """
    if dtype == torch.float32:
        yield
        return
    with torch.autocast(device.type, dtype):
        if device.type != "cpu":
            yield
            return
        with sdpa_kernel(SDPBackend.MATH):
            yield
