"""The moving average, in and out of the model's place."""

import copy

import pytest
import torch
from torch import nn

from models.errors import StudioError
from train.ema import Ema


def linear(value: float) -> nn.Linear:
    module = nn.Linear(1, 1)
    nn.init.constant_(module.weight, value)
    nn.init.constant_(module.bias, -value)
    return module


def test_the_average_is_the_recurrence_with_a_decay_that_warms_up() -> None:
    module = linear(1.0)
    ema = Ema(module, 0.3)
    expected = 1.0
    for step, value in enumerate((5.0, 2.0, -1.0, 4.0)):
        with torch.no_grad():
            module.weight.fill_(value)
        ema.update(module)
        decay = min(0.3, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    assert ema.averages["weight"].item() == pytest.approx(expected)
    assert ema.averages["bias"].item() == pytest.approx(-1.0)
    assert ema.next_decay() == 0.3


def test_the_averages_stand_in_for_the_weights_and_go_back_also_after_an_exception() -> None:
    module = linear(1.0)
    ema = Ema(module, 0.5)
    with torch.no_grad():
        module.weight.fill_(7.0)
    storage, average = module.weight.data_ptr(), ema.averages["weight"].data_ptr()
    parameter = module.weight

    def fails() -> None:
        with ema.in_place_of(module):
            assert module.weight is parameter
            assert module.weight.item() == 1.0
            assert module.weight.data_ptr() == average
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert module.weight.item() == 7.0
    assert (module.weight.data_ptr(), ema.averages["weight"].data_ptr()) == (storage, average)


def test_an_average_that_is_saved_and_loaded_goes_on_alike() -> None:
    module = linear(1.0)
    ema = Ema(module, 0.9)
    with torch.no_grad():
        module.weight.fill_(3.0)
    ema.update(module)
    state = copy.deepcopy(ema.state_dict())
    resumed = Ema(linear(0.0), 0.9)
    resumed.load_state_dict(state)
    for average in (ema, resumed):
        average.update(module)
    assert resumed.updates == ema.updates == 2
    assert torch.equal(resumed.averages["weight"], ema.averages["weight"])


def test_averages_of_another_model_and_decays_out_of_range_are_refused() -> None:
    ema = Ema(linear(1.0), 0.9)
    with pytest.raises(StudioError, match="another model: bias differs"):
        ema.load_state_dict(Ema(nn.Linear(1, 1, bias=False), 0.9).state_dict())
    with pytest.raises(StudioError, match="another model: weight differs"):
        ema.load_state_dict(Ema(nn.Linear(2, 1), 0.9).state_dict())
    for decay in (1.0, -0.1):
        with pytest.raises(StudioError, match="from 0 to below 1"):
            Ema(linear(1.0), decay)
