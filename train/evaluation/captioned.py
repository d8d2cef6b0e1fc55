"""Pictures with captions for retrieval: each picture once, with all its captions."""

from dataclasses import dataclass

from models.errors import StudioError
from train.data.config import Data
from train.data.csv_folder import CsvFolder
from train.data.open import open_source
from train.data.packed import Packer
from train.data.sample import Source, counted

# A character for this purpose, which no caption holds; it is taken where a CSV has one caption a field.
_BETWEEN = "\x1f"


@dataclass(frozen=True, eq=False)
class Captioned:
    """A source for retrieval, and what it is, for a person, in one line."""

    source: Source
    description: str


def open_captioned(data: Data, side: int) -> Captioned:
    """The pictures and captions of these settings; scenes that do not say otherwise are drawn at `side` pixels.

    Rows of a CSV that name one picture become one sample with all their captions, for a picture that stood twice among
    the candidates could only be found once.

    Raises:
        StudioError: there are no such data, or they cannot be read by position.
    """
    source = open_source(data, side)
    if not len(source):
        raise StudioError(f"{source.describe()}: no sample can be used, look at it with `python -m train check-data`.")
    if isinstance(source, CsvFolder):
        merged = one_row_a_picture(source)
        told = f"{source.describe()}, {counted(len(merged), 'picture')}"
        return Captioned(merged, told)
    return Captioned(source, source.describe())


def one_row_a_picture(table: CsvFolder) -> CsvFolder:
    """The same table with the captions of each picture in one row, in the order in which pictures first stand."""
    between = table.data.between_captions or _BETWEEN
    rows: dict[str, list[str]] = {}
    for index in range(len(table)):
        rows.setdefault(table.paths[index], []).append(table.captions[index])
    paths, captions = Packer(), Packer()
    for path, texts in rows.items():
        paths.add(path)
        captions.add(between.join(texts))
    data = type(table.data)(**{**vars(table.data), "between_captions": between})
    return CsvFolder(data, table.root, paths.packed(), captions.packed(), table.left_out, table.examples)
