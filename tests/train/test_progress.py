"""What is told while something takes long."""

import time

import pytest

from train.progress import shard_progress


@pytest.mark.parametrize(("delay", "shown"), [(0.01, True), (60.0, False)])
def test_indexing_is_told_only_where_it_takes_long(
    delay: float, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    tell = shard_progress(delay)
    for done in range(1, 4):
        time.sleep(0.02)
        tell(done, 3)
    told = capsys.readouterr().err
    assert ("indexing tars" in told and "3/3" in told) == shown
