"""Long runs that are left are taken up where they were, by who asks for exactly the same; they are bounded in bytes."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from studio.kept_runs import KeptRuns, RunKey, run_key
from studio.service import Service
from studio.store import BoundedStore
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


def test_one_that_is_stopped_before_its_first_step_is_still_there(kept: KeptRuns) -> None:
    made: list[int] = []
    left_after(kept, made, 2)
    kept.begin(KEY, lambda: pytest.fail("it is there")).steps.close()  # type: ignore[attr-defined]
    run = kept.begin(KEY, lambda: pytest.fail("it is there"))
    assert list(run.steps) == [1, 2, 3]


def test_one_whose_model_was_let_go_while_it_went_on_ends_and_is_not_kept(kept: KeptRuns) -> None:
    made: list[int] = []
    run = kept.begin(KEY, lambda: counted(made))
    next(run.steps)
    kept.forget("another")
    kept.forget("b")
    assert list(run.steps) == [1, 2, 3]
    assert not kept.begin(KEY, lambda: counted([])).remembered, "it holds the weights of a model that was let go"


def test_a_run_weighs_what_models_did_with_its_picture_also_when_that_was_let_go(
    folders: tuple[Path, Path], scene: Upload
) -> None:
    service = Service(folders, (), recording_bytes=1)
    for name in service.names:
        service.look(name, scene.image)
    assert len(service.looks) == 0
    used = []
    for names in ([], service.names):
        assert list(service.kept.begin(run_key("duel", names, scene), lambda: iter([0])).steps) == [0]
        used.append(service.kept.used)
    held = sum(service.look(name, scene.image).recording.nbytes for name in service.names)
    assert used[1] - 2 * used[0] >= 2 * held


def test_what_python_lets_go_of_amid_a_store_may_be_put_into_it() -> None:
    store: BoundedStore[str, object] = BoundedStore(10)

    class Returning:
        def __del__(self) -> None:
            store.put("back", 0, 1)

    store.put("it", Returning(), 1)
    dropping = threading.Thread(target=store.drop, args=(lambda key: key == "it",), daemon=True)
    dropping.start()
    dropping.join(10)
    assert not dropping.is_alive(), "it waits for itself"
    assert (store.get("back"), store.used) == (0, 1)


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
