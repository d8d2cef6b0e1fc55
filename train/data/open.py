"""Opens the source that settings ask for."""

from collections.abc import Callable
from pathlib import Path

from train.data.config import CsvData, Data, TarData
from train.data.csv_folder import open_csv
from train.data.sample import Source
from train.data.scene_source import SceneSource
from train.data.tars import open_tars


def open_source(
    data: Data, image_size: int, cache: Path | None = None, progress: Callable[[int, int], object] | None = None
) -> Source:
    """The source of these settings.

    Args:
        image_size: pixels a side of the model's input, at which scenes are drawn if they do not say otherwise.
        cache: a folder in which the index of tar shards is kept for the next time; None keeps nothing.
        progress: called with (shards done, shards in all) while tars are indexed.

    Raises:
        StudioError: there are no such data, or they cannot be read by position.
    """
    match data:
        case TarData():
            return open_tars(data, cache, progress)
        case CsvData():
            return open_csv(data)
        case _:
            return SceneSource(data, data.drawn or image_size)
