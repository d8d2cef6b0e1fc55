"""All figures of a study and its tables, written beside its file."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from train.durable import sync_folder, write_whole, writing
from train.evaluation.figures.attention import attention
from train.evaluation.figures.bars import bars
from train.evaluation.figures.radar import radar
from train.evaluation.figures.relevance import relevance
from train.evaluation.quoting import quotations
from train.evaluation.study_file import StudyFile, StudyModel

FIGURES: Mapping[str, Callable[[Sequence[StudyModel]], str]] = {
    "bars.svg": bars,
    "radar.svg": radar,
    "attention.svg": attention,
    "relevance.svg": relevance,
}
TABLES = "tables.md"


def write_figures(found: StudyFile, folder: Path) -> list[Path]:
    """Write bars.svg, radar.svg, attention.svg, relevance.svg and tables.md, over those of an earlier study.

    Raises:
        StudioError: they cannot be written.
    """
    content = {name: draw(found.models) for name, draw in FIGURES.items()}
    content[TABLES] = "\n\n".join(quotations(found).values()) + "\n"
    with writing(folder):
        for name, text in content.items():
            write_whole(folder / name, text)
        sync_folder(folder)
    return [folder / name for name in content]
