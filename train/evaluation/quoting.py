"""Numbers of a study in other documents, between markers, so that what is quoted can be held against the file.

<!-- scenes:abilities -->
what stands here is written by `python -m train figures FILE.json --into README.md`
<!-- /scenes:abilities -->
"""

import re
from collections.abc import Mapping
from pathlib import Path

from models.errors import StudioError
from models.plain import nearest
from train.durable import sync_folder, write_whole, writing
from train.evaluation import study_tables
from train.evaluation.study_file import StudyFile
from train.evaluation.study_sentence import sentences

_OPEN = re.compile(r"<!-- scenes:([a-z-]*) -->")
_BLOCK = re.compile(r"<!-- scenes:([a-z-]*) -->.*?<!-- /scenes:\1 -->", re.DOTALL)
_ANY = re.compile(r"<!-- /?scenes:")


def quotations(found: StudyFile) -> dict[str, str]:
    """What can be quoted, by the name in the markers."""
    return {
        "sentences": sentences(found),
        "table": study_tables.abilities(found),
        "attention": study_tables.attention(found),
        "layers": study_tables.layers(found),
        "differences": study_tables.differences(found),
        "controls": study_tables.gains(found),
    }


def quotes(text: str) -> bool:
    """Whether a document has such a marker."""
    return _ANY.search(text) is not None


def filled(text: str, told: Mapping[str, str]) -> str:
    """The document with what stands between its markers replaced; the rest as it is, to the byte.

    Raises:
        StudioError: a marker of an unknown name, or one that is not closed.
    """
    for name in _OPEN.findall(text):
        if name not in told:
            raise StudioError(f"Marker scenes:{name} is unknown{nearest(name, told)}: choose {', '.join(told)}.")
    done = _BLOCK.sub(lambda found: f"<!-- scenes:{found[1]} -->\n{told[found[1]]}\n<!-- /scenes:{found[1]} -->", text)
    left = _ANY.search(_BLOCK.sub("", text))
    if left:
        line = text[: text.index(left[0])].count("\n") + 1
        raise StudioError(
            f"A marker of line {line} or after it stands alone: write <!-- scenes:table --> and <!-- /scenes:table -->."
        )
    return done


def fill(path: Path, told: Mapping[str, str]) -> Path:
    """Fill the markers of a document.

    Raises:
        StudioError: it cannot be read or written, has no marker, or one that is wrong.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudioError(f"{path} cannot be read ({error}): give a text in UTF-8.") from error
    if not quotes(text):
        raise StudioError(
            f"{path} has no marker to fill: put <!-- scenes:table --> and <!-- /scenes:table --> where the table goes."
        )
    with writing(path):
        write_whole(path, filled(text, told))
        sync_folder(path.absolute().parent)
    return path
