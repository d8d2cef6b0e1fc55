"""A CSV or TSV with a column of picture paths and a column of captions -> a source."""

import csv
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from models.errors import StudioError
from models.plain import nearest
from train.data.config import CsvData
from train.data.decode import MAX_BYTES, decode_picture
from train.data.packed import PackedTexts, Packer
from train.data.rows import table_rows
from train.data.sample import Reason, Sample, Skip, counted

IMAGE_COLUMNS, CAPTION_COLUMNS = ("filepath", "image"), ("title", "caption")
_SHOWN = 3
_ASKED_EVERY = 2000


@dataclass(frozen=True, eq=False)
class CsvFolder:
    """The usable rows of a CSV, in their order. Whether a picture is there is known when it is read.

    `share` is below 1 where only so much of the table's bytes was read.
    """

    data: CsvData
    root: str
    paths: PackedTexts
    captions: PackedTexts
    left_out: Mapping[Reason, int]
    examples: tuple[Skip, ...]
    share: float = 1.0

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int, least_side: int = 0) -> Sample | Skip:
        """The picture and the captions of usable row `index`."""
        path = self.paths[index]
        try:
            with open(os.path.join(self.root, path), "rb") as file:
                content = file.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return Skip(index, path, "no image")
        except OSError:
            return Skip(index, path, "unreadable file")
        if len(content) > MAX_BYTES:
            return Skip(index, path, "too large")
        picture = decode_picture(content, least_side)
        if isinstance(picture, str):
            return Skip(index, path, picture)
        return Sample(picture, _captions(self.captions[index], self.data.between_captions))

    def fingerprint(self) -> str:
        """Over paths and captions of the usable rows; pictures are not looked at."""
        digest = hashlib.sha256()
        for texts in (self.paths, self.captions):
            digest.update(texts.ends.astype("<i8").tobytes())
            digest.update(texts.content.tobytes())
        return digest.hexdigest()

    def describe(self) -> str:
        """What it is, in one line."""
        return f"{self.data.csv}: {counted(len(self), 'row')} with a path and a caption, pictures below {self.root}"


def _never() -> bool:
    """The whole table is wanted."""
    return False


def open_csv(data: CsvData, enough: Callable[[], bool] = _never) -> CsvFolder:
    """Read the table, not the pictures. Rows without a path or a caption are counted and left out.

    `enough` is asked every few thousand rows; where it says so, the rest is not read.

    Raises:
        StudioError: no such file, not UTF-8, no such column, or a path that leads out of the root (by its text:
            links in the folder are followed).
    """
    path = Path(data.csv)
    root = os.path.abspath(data.root or path.parent)
    left_out: Counter[Reason] = Counter()
    examples: list[Skip] = []
    paths, captions, read = Packer(), Packer(), 1.0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            separator = data.separator or ("\t" if "\t" in header else ",")
            names = next(csv.reader([header], delimiter=separator), [])
            image = _column(path, names, data.image, IMAGE_COLUMNS, "image")
            caption = _column(path, names, data.caption, CAPTION_COLUMNS, "caption")
            size = max(1, os.fstat(file.fileno()).st_size)
            for done, (number, row) in enumerate(table_rows(file, separator, len(names)), start=1):
                where = row[image].strip() if image < len(row) else ""
                text = row[caption].strip() if caption < len(row) else ""
                reason = _unusable(where, text, data.between_captions)
                if reason:
                    left_out[reason] += 1
                    if len(examples) < _SHOWN:
                        examples.append(Skip(-1, where or f"line {number + 1}", reason))
                else:
                    paths.add(where if _is_plain(where) else _inside(root, where, f"{path}, line {number + 1}"))
                    captions.add(text)
                if done % _ASKED_EVERY == 0 and enough():
                    read = min(1.0, os.lseek(file.fileno(), 0, os.SEEK_CUR) / size)
                    break
    except FileNotFoundError as error:
        raise StudioError(f"There is no file {path}: give the path of a CSV with a header.") from error
    except UnicodeDecodeError as error:
        raise StudioError(f"{path} is not UTF-8 ({error}): save it as UTF-8.") from error
    except (OSError, csv.Error) as error:
        raise StudioError(f"{path} cannot be read as a table ({error}): check its separator and quotes.") from error
    return CsvFolder(data, root, paths.packed(), captions.packed(), dict(left_out), tuple(examples), read)


def _column(path: Path, names: list[str], asked: str, known: tuple[str, ...], setting: str) -> int:
    """The place of the column that is asked for, or of the first of the known ones."""
    found = [name for name in ([asked] if asked else known) if name in names]
    if found:
        return names.index(found[0])
    wanted = repr(asked) if asked else " or ".join(map(repr, known))
    raise StudioError(
        f"{path} has no column {wanted}{nearest(asked, names) if asked else ''}: its columns are "
        f"{', '.join(map(repr, names)) or 'none'}; name one with data.{setting}."
    )


def _unusable(path: str, text: str, between: str) -> Reason | None:
    if not path:
        return "no image"
    return None if _captions(text, between) else "empty caption"


def _captions(text: str, between: str) -> tuple[str, ...]:
    parts = text.split(between) if between else [text]
    return tuple(part.strip() for part in parts if part.strip())


def _is_plain(path: str) -> bool:
    """Whether a path is below the root and written in the shortest way, as nearly all are; others are looked at."""
    odd = path[0] in "/." or path[-1] == "/" or "/." in path or "//" in path or "\0" in path
    return not odd and os.sep == "/"


def _inside(root: str, path: str, where: str) -> str:
    """`path` from `root` on, without a way out of it."""
    whole = os.path.normpath(os.path.join(root, path))
    if "\0" in path or os.path.commonpath([root, whole]) != root:
        raise StudioError(f"{where}: the path {path!r} leads out of {root}: set data.root to a folder above both.")
    return os.path.relpath(whole, root)
