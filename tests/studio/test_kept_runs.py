"""Long runs that are left are taken up where they were, by who asks for exactly the same; they are bounded in bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from studio.kept_runs import KeptRuns, RunKey, run_key
from studio.upload import Upload

KEY = RunKey(("a", "b"), "token", "digest")


def noise(seed: int) -> Upload:
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Upload(Image.fromarray(pixels), Path("x.png"))


def counted(made: list[int], steps: int = 4) -> Iterator[int]:
    """A run whose passes are noted when they are made."""
    for step in range(steps):
        made.append(step)
        yield step


@pytest.fixture
def kept() -> KeptRuns:
    return KeptRuns(lambda _: 0)


def left_after(kept: KeptRuns, made: list[int], steps: int) -> None:
    run = kept.begin(KEY, lambda: counted(made))
    assert not run.remembered
    assert run.note == ""
    for _ in range(steps):
        next(run.steps)
    run.steps.close()  # type: ignore[attr-defined]


def test_a_run_that_was_left_goes_on_with_what_it_told_last_and_makes_no_pass_again(kept: KeptRuns) -> None:
    made: list[int] = []
    left_after(kept, made, 2)
    run = kept.begin(KEY, lambda: pytest.fail("it is there"))
    assert run.remembered
    assert list(run.steps) == [1, 2, 3]
    assert made == [0, 1, 2, 3]
    assert run.note.startswith("From memory")


def test_one_that_ended_gives_its_result_at_once_and_as_often_as_it_is_asked_for(kept: KeptRuns) -> None:
    made: list[int] = []
    assert list(kept.begin(KEY, lambda: counted(made)).steps) == [0, 1, 2, 3]
    for _ in range(2):
        assert list(kept.begin(KEY, lambda: pytest.fail("it is there")).steps) == [3]
    assert made == [0, 1, 2, 3]


def test_one_that_goes_on_cannot_be_taken_up_by_another_page(kept: KeptRuns) -> None:
    made, others = list[int](), list[int]()
    left_after(kept, made, 2)
    first = kept.begin(KEY, lambda: counted(made))
    second = kept.begin(KEY, lambda: counted(others))
    assert (first.remembered, second.remembered) == (True, False)
    assert list(first.steps) == [1, 2, 3]
    assert list(second.steps) == [0, 1, 2, 3]


def test_one_that_failed_or_never_began_is_begun_anew(kept: KeptRuns) -> None:
    def fails() -> Iterator[int]:
        yield 0
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(kept.begin(KEY, fails).steps)
    kept.begin(KEY, lambda: counted([])).steps.close()  # type: ignore[attr-defined]
    assert not kept.begin(KEY, lambda: counted([])).remembered


def test_runs_are_bounded_in_bytes_and_those_of_a_model_go_with_it() -> None:
    kept = KeptRuns(lambda _: 100_000, capacity=400_000)
    keys = [RunKey((name,), "token", name) for name in ("a", "b", "c", "d")]
    for key in keys[:3]:
        list(kept.begin(key, lambda: iter([1])).steps)
    assert not kept.begin(keys[0], lambda: iter([1])).remembered, "it was let go for the third"
    assert kept.begin(keys[1], lambda: iter([1])).remembered
    kept.forget("c")
    assert not kept.begin(keys[2], lambda: iter([1])).remembered
    list(kept.begin(keys[3], lambda: iter([np.zeros(10**6)])).steps)
    assert not kept.begin(keys[3], lambda: iter([1])).remembered, "it is larger than all that may be kept"


@dataclass(frozen=True)
class Settings:
    alpha: float
    mask: Upload | None = None
    painted: object = None


def test_every_setting_and_every_pixel_is_in_the_key() -> None:
    picture, settings = noise(0), Settings(1.5, noise(1), {"mask": "data:", "token": "x"})
    key = run_key("sweep", ("a", "b"), picture, settings, ["softmax", "entmax"])
    assert key == run_key("sweep", ["a", "b"], noise(0), replace(settings, mask=noise(1)), ["softmax", "entmax"])
    others = [
        run_key("segment", ("a", "b"), picture, settings, ["softmax", "entmax"]),
        run_key("sweep", ("b", "a"), picture, settings, ["softmax", "entmax"]),
        run_key("sweep", ("a", "b"), noise(2), settings, ["softmax", "entmax"]),
        run_key("sweep", ("a", "b"), picture, settings, ["softmax"]),
        run_key("sweep", ("a", "b"), picture, settings, "softmax, entmax"),
        *(
            run_key("sweep", ("a", "b"), picture, other, ["softmax", "entmax"])
            for other in (
                replace(settings, alpha=1.6),
                replace(settings, mask=noise(3)),
                replace(settings, mask=None),
                replace(settings, painted={"mask": "data:y", "token": "x"}),
            )
        ),
    ]
    assert len({key, *others}) == len(others) + 1
    with pytest.raises(TypeError, match="plain values"):
        run_key("sweep", ("a", "b"), picture, object())
