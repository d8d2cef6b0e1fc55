"""What the towers compute in."""

import torch

from train.config import Precision

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
