"""What a forward pass computes in, and with which kernels."""

import pytest
import torch
from torch.nn import functional as F

from train.precision import computing_in, resolve_precision

CPU = torch.device("cpu")


def kernels() -> dict[str, bool]:
    return {
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "memory": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "math": torch.backends.cuda.math_sdp_enabled(),
    }


def operators(dtype: torch.dtype) -> set[str]:
    q = torch.randn(2, 4, 65, 32, requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with computing_in(dtype, CPU):
            answer = F.scaled_dot_product_attention(q @ q.mT @ q, q, q)
        answer.sum().backward()
    return {event.key for event in profile.key_averages()}


def test_a_narrow_forward_pass_on_a_processor_leaves_out_the_slow_flash_kernel() -> None:
    assert not any("flash" in name for name in operators(torch.bfloat16))
    assert any("flash" in name for name in operators(torch.float32))


def test_the_choice_of_kernels_ends_with_the_pass_also_when_it_fails() -> None:
    def failing() -> None:
        with computing_in(torch.bfloat16, CPU):
            assert torch.is_autocast_enabled("cpu")
            assert kernels() == {"flash": False, "memory": False, "math": True}
            raise ZeroDivisionError

    before = kernels()
    with pytest.raises(ZeroDivisionError):
        failing()
    assert kernels() == before
    assert not torch.is_autocast_enabled("cpu")


def test_float32_changes_neither_types_nor_kernels() -> None:
    before = kernels()
    with computing_in(torch.float32, CPU):
        assert kernels() == before
        assert not torch.is_autocast_enabled("cpu")
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_a_named_precision_is_taken_at_its_word() -> None:
    assert resolve_precision("float32", CPU) == torch.float32
    assert resolve_precision("bfloat16", CPU) == torch.bfloat16
