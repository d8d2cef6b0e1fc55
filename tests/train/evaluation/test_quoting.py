"""What documents quote of a study is what its file says."""

from pathlib import Path

import pytest
from studies import six, study_file

from models.errors import StudioError
from train.__main__ import main
from train.evaluation.quoting import fill, filled, quotations, quotes
from train.evaluation.study_file import StudyFile, read_study

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "assets" / "results" / "scenes.json"
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("assets/checkpoints/*/README.md"))]
PAGE = (
    "before\r\n<!-- scenes:table -->\nold | numbers\n<!-- /scenes:table -->\nafter "
    "<!-- scenes:sentences --><!-- /scenes:sentences -->"
)


@pytest.fixture
def found(tmp_path: Path) -> StudyFile:
    return study_file(tmp_path, six())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_quote_what_the_file_of_the_study_says(document: Path) -> None:
    text = document.read_bytes().decode()
    if STUDY.exists():
        assert filled(text, quotations(read_study(STUDY))) == text, f"python -m train figures {STUDY} --into {document}"
    else:
        assert not quotes(text), f"{document} quotes a study that is not there: {STUDY}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_readme_and_cards_quote_the_study_as_soon_as_there_is_one(document: Path) -> None:
    assert quotes(document.read_text(encoding="utf-8")) == STUDY.exists()


def test_markers_are_filled_and_the_rest_stays_to_the_byte(
    found: StudyFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    path.write_bytes(PAGE.encode())
    assert main(["figures", str(tmp_path / "scenes.json"), "--into", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    text, told = path.read_bytes().decode(), quotations(found)
    assert text == (
        f"before\r\n<!-- scenes:table -->\n{told['table']}\n<!-- /scenes:table -->\nafter "
        f"<!-- scenes:sentences -->\n{told['sentences']}\n<!-- /scenes:sentences -->"
    )
    assert filled(text, told) == text
    assert filled(text.replace("50.0", "51.0", 1), told) == text


def test_every_layer_of_every_map_is_listed(found: StudyFile) -> None:
    head, _, *rows = quotations(found)["layers"].splitlines()
    assert head == "| % | layer 0 | layer 1 |"
    assert "| CLIP, seed 1: A, AUROC | 50.0 (48.0 to 52.0) | 70.0 (68.0 to 72.0) |" in rows
    assert len(rows) == len(set(rows)) == sum(len(model.layers) for model in found.models)


def test_tables_hold_every_model_its_chance_and_its_differences(found: StudyFile) -> None:
    told = quotations(found)
    head = ["%", *(f"{variant}, seed {seed}" for variant in ("CLIP", "DiffCLIP") for seed in (0, 1))]
    head += ["DiffCLIP*, seed 0", "DiffCLIP†, seed 0", "chance"]
    assert told["table"].startswith(f"| {' | '.join(head)} |")
    assert "| names, top-1 | 50.0 (48.0 to 52.0) | 51.0 (49.0 to 53.0) |" in told["table"]
    assert "| A, AUROC | 60.0 (58.0 to 62.0) | 60.0 (58.0 to 62.0) | – | – | – | – | 50.0 |" in told["attention"]
    assert "| A1 − λA2 against A, AUROC | +0.0 (+0.0 to +0.0) |" in told["differences"]
    assert "| A1 − λA2 − A1, AUROC | +5.0 (+3.0 to +7.0) |" in told["controls"]
    for name in ("table", "attention", "differences", "controls"):
        assert len({line.count("|") for line in told[name].splitlines()}) == 1, name


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<!-- scenes:tabel -->\n<!-- /scenes:tabel -->", "scenes:tabel is unknown, did you mean 'table'"),
        ("one\n<!-- scenes:table -->\nnever closed", "line 2 or after it stands alone"),
        ("<!-- /scenes:table -->", "line 1 or after it stands alone"),
    ],
)
def test_wrong_markers_are_refused_and_the_document_stays(
    text: str, sentence: str, found: StudyFile, tmp_path: Path
) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    with pytest.raises(StudioError, match=sentence):
        fill(path, quotations(found))
    assert path.read_text() == text


def test_a_document_without_markers_is_refused(found: StudyFile, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing")
    with pytest.raises(StudioError, match="has no marker to fill"):
        fill(tmp_path / "page.md", quotations(found))
