"""What the benchmark of the studio makes of its figures, and that each of its keys changes what is shown."""

import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmarks.studio import GRID, LAYERS, ONCE, STARTS, STEPS, arrow_keys, layer_keys, missed, percentile, summary

ROOT = Path(__file__).resolve().parents[2]
MOVES = {"ArrowUp": (-1, 0), "ArrowDown": (1, 0), "ArrowLeft": (0, -1), "ArrowRight": (0, 1)}


def figures() -> dict[str, dict[str, Any]]:
    """Rows that keep every bound by little."""
    rows: dict[str, dict[str, Any]] = {name: {"p95": bound - 0.1} for name, bound in STEPS.items()}
    rows |= {name: {"seconds": bound - 0.1, "told": ["layer 1 of 24"]} for name, bound in ONCE.items()}
    return rows | {name: {"seconds": bound - 0.1} for name, bound in STARTS.items()}


def test_no_bound_is_missed_by_figures_that_keep_all_of_them() -> None:
    assert missed(figures()) == []


@pytest.mark.parametrize("name", [*STEPS, *ONCE, *STARTS])
@pytest.mark.parametrize("over", [0.0, float("nan")])
def test_each_figure_that_is_too_slow_is_named(name: str, over: float) -> None:
    rows = figures()
    rows[name]["p95" if name in STEPS else "seconds"] = (STEPS | ONCE | STARTS)[name] + over
    (sentence,) = missed(rows)
    assert sentence.startswith(f"{name}: ")


@pytest.mark.parametrize("name", ONCE)
def test_what_takes_long_and_tells_nothing_is_named(name: str) -> None:
    rows = figures()
    rows[name]["told"] = []
    assert missed(rows) == [f"{name}: nothing was told while it was worked out."]


def test_a_percentile_is_one_of_the_values_that_few_exceed() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values) == 95
    assert percentile([3.0]) == 3
    assert percentile([1.0, 2.0]) == 2


def test_what_counts_of_a_step_is_chosen_and_the_time_since_the_event_stays_beside_it() -> None:
    steps = [{"ms": 10.0 * step, "reached": 1.0 * step, "changed": [True, step > 1]} for step in range(1, 4)]
    row = summary(steps, "reached")
    assert (row["p95"], row["median"], row["worst"]) == (3, 2, 3)
    assert row["ms"] == {"p95": 30, "median": 20}
    assert row["changed"] == 1


def test_every_arrow_moves_the_query() -> None:
    keys = arrow_keys()
    # From CLS the first key goes to the middle, whichever it is.
    assert next(keys) in MOVES
    row = col = GRID // 2
    for key in islice(keys, 3 * GRID**2):
        row, col = row + MOVES[key][0], col + MOVES[key][1]
        assert 0 <= row < GRID
        assert 0 <= col < GRID


@pytest.mark.parametrize("start", [0, 5, LAYERS - 1])
def test_every_bracket_moves_the_layer(start: int) -> None:
    layer, seen = start, {start}
    for key in islice(layer_keys(start), 5 * LAYERS):
        layer += 1 if key == "]" else -1
        assert 0 <= layer < LAYERS
        seen.add(layer)
    assert seen == set(range(LAYERS))


def test_help_of_the_studio_benchmark_says_what_check_does() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "studio.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "exit with 1 if a bound is missed" in done.stdout
