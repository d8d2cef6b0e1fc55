"""Sentences claim what all seeds say, and tell where they do not."""

from pathlib import Path

import pytest
from studies import model_entry, study_file

from train.evaluation.metrics import Measured
from train.evaluation.study_sentence import sentences, verdict

A = 0.6


def told(tmp_path: Path, *means: float, gains: tuple[float, ...] = (0.05, 0.05)) -> list[str]:
    """The sentences of one pair a seed, whose DiffCLIPs have these means and the CLIPs 0.6."""
    entries = [model_entry("CLIP", seed, A) for seed in range(len(means))]
    entries += [model_entry("DiffCLIP", seed, mean, gains[seed]) for seed, mean in enumerate(means)]
    return sentences(study_file(tmp_path, entries)).split(". ")


def test_seeds_that_agree_on_better_claim_better(tmp_path: Path) -> None:
    first, second, *_ = told(tmp_path, 0.7, 0.65)
    assert first.startswith(
        "The AUROC of object patches of DiffCLIP's A1 − λA2 is above that of CLIP's A with both seeds "
        "(with seed 0: 70.0% against 60.0%, +10.0 points, +10.0 to +10.0; with seed 1: 65.0% against 60.0%, +5.0 points"
    )
    assert second.startswith("The mass on object patches of DiffCLIP's positive part of A1 − λA2 is above")


def test_seeds_that_agree_on_worse_claim_worse(tmp_path: Path) -> None:
    first, second, *_ = told(tmp_path, 0.5, 0.45)
    assert "is below that of CLIP's A with both seeds" in first
    assert "−15.0 points" in first
    assert "is below that of CLIP's A with both seeds" in second


def test_seeds_that_disagree_are_said_to(tmp_path: Path) -> None:
    first, second, *_ = told(tmp_path, 0.7, 0.5)
    for one in (first, second):
        assert one.startswith("Seeds disagree about the ")
        assert "which is above with seed 0 and below with seed 1" in one


def test_a_seed_whose_interval_holds_zero_is_no_claim(tmp_path: Path) -> None:
    first, *_ = told(tmp_path, A, A)
    assert "is not told apart from that of CLIP's A with both seeds" in first
    first, *_ = told(tmp_path, 0.7, A)
    assert "Seeds disagree" in first
    assert "above with seed 0 and not told apart from with seed 1" in first
    assert verdict(Measured(0.01, -0.001, 0.02)) == "no difference"
    assert verdict(Measured(0.01, 0.001, 0.02)) == "higher"
    assert verdict(Measured(-0.01, -0.02, -0.001)) == "lower"


def test_one_seed_is_said_to_be_one(tmp_path: Path) -> None:
    first, *_ = told(tmp_path, 0.7)
    assert "with the one seed that was measured" in first


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((0.05, 0.05), "DiffCLIP's A1 − λA2 is, with both seeds, above A1; below A2 shuffled"),
        ((-0.05, -0.03), "DiffCLIP's A1 − λA2 is, with both seeds, above A2 shuffled; below A1"),
        ((0.01, -0.01), "DiffCLIP's A1 − λA2 is, with both seeds, not told apart from A1 and A2 shuffled"),
        ((0.05, -0.05), "DiffCLIP's A1 − λA2 stands otherwise to its controls with each seed: A1 and A2 shuffled"),
    ],
)
def test_controls_are_grouped_by_what_all_seeds_say(gains: tuple[float, float], expected: str, tmp_path: Path) -> None:
    _, _, third, _ = told(tmp_path, 0.7, 0.7, gains=gains)
    assert third.endswith(expected)


def test_a_diffclip_without_the_clip_of_its_seed_is_compared_with_nothing(tmp_path: Path) -> None:
    found = study_file(tmp_path, [model_entry("CLIP", 0), model_entry("DiffCLIP", 1)])
    assert sentences(found).startswith("No DiffCLIP was measured beside a CLIP of its seed")
