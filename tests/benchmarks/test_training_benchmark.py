"""What the benchmark of the training loops makes of its figures; the timing itself is the benchmark's."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.training import config_file, missed, ratio, row_of
from train.config import load_config

ROOT = Path(__file__).resolve().parents[2]


def turns(*seconds: float) -> list[dict[str, float]]:
    return [{"wall": 2 * one, "processor": one} for one in seconds]


def figures() -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows and loaders that keep every bound exactly."""
    rows = {
        "clip": {"ratio": {name: {"wall": 1.0, "processor": 1.0} for name in ("open_clip", "plain open_clip")}},
        "diffclip": {"ratio": {"open_clip": {"wall": 1.0, "processor": 1.0}}},
    }
    return rows, {"tars": {"of_consumed": 3.0}, "scenes": {"of_consumed": 0.1}}


def test_no_bound_is_missed_by_figures_that_keep_all_of_them() -> None:
    assert missed(*figures()) == []


@pytest.mark.parametrize(
    ("kind", "name"), [("clip", "open_clip"), ("clip", "plain open_clip"), ("diffclip", "open_clip")]
)
@pytest.mark.parametrize("clock", ["wall", "processor"])
@pytest.mark.parametrize("value", [0.999, float("nan")])
def test_a_loop_that_is_slower_by_one_clock_is_named(kind: str, name: str, clock: str, value: float) -> None:
    rows, loaders = copy.deepcopy(figures())
    rows[kind]["ratio"][name][clock] = value
    (sentence,) = missed(rows, loaders)
    assert sentence.startswith(f"{kind}: {value:.3f} times as fast as {name}, {clock} time")


def test_a_slow_loader_of_tars_is_named() -> None:
    rows, loaders = figures()
    loaders["tars"]["of_consumed"] = 2.9
    (sentence,) = missed(rows, loaders)
    assert "loader" in sentence
    assert "2.90" in sentence


def test_the_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    # The other loop took 1.5, 4 and 2 times as long; the ratio of the medians would be 3.
    found = {"ours": turns(2.0, 1.0, 10.0), "open_clip": turns(3.0, 4.0, 20.0)}
    assert ratio(found, "open_clip", "wall") == ratio(found, "open_clip", "processor") == 2.0


def test_speed_and_mfu_follow_from_a_turns_samples_and_seconds() -> None:
    config = load_config(config_file("clip"))
    found = {"ours": turns(10.0), "open_clip": turns(20.0)}
    row = row_of(config, found, 5, {"torch.float32": 1e11})
    each = 5 * config.batch_size / 10.0
    assert row["samples_per_second"]["ours"] == {"wall": each / 2, "processor": each}
    assert row["mfu"]["torch.float32"] == pytest.approx(each * row["flops_per_sample"] / 1e11)
    # A loop that does the products alone takes that share of our time, and ours half of the other's.
    assert row["most"]["open_clip"] == pytest.approx(2 / row["mfu"]["torch.float32"])


def test_help_says_what_check_does() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "training.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "exit with 1 if a bound is missed" in done.stdout
