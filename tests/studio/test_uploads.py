"""Bad files give sentences, and no file outside the upload folder is ever read."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from gradio.utils import get_upload_folder
from PIL import Image

from models import StudioError
from studio.uploads import own_folder, picture_field, read_upload


def bad_files(folder: Path) -> dict[str, Path]:
    whole = folder / "whole.jpg"
    Image.effect_noise((200, 300), 60).save(whole)
    contents = {
        "empty.png": b"",
        "text.jpg": b"hello, not a picture",
        "page.png": b"<!DOCTYPE html><html></html>",
        "cut.jpg": whole.read_bytes()[: whole.stat().st_size * 2 // 3],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    Image.new("1", (20000, 20000)).save(folder / "bomb.png")
    return {name: folder / name for name in [*contents, "bomb.png"]}


def test_each_bad_file_gets_a_sentence(tmp_path: Path) -> None:
    for name, path in bad_files(tmp_path).items():
        with pytest.raises(StudioError, match=r"[Tt]he (file|picture) .+: .+") as caught:
            read_upload(str(path), tmp_path)
        assert str(tmp_path) not in str(caught.value), name


def test_what_is_sent_lies_in_a_folder_of_this_process_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr("studio.uploads.atexit.register", lambda *args, **named: kept.append((*args, named)))
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")
    own_folder()
    folder = Path(get_upload_folder())
    try:
        assert folder.name.startswith("diffclip-studio-")
        assert folder.is_dir()
        own_folder()
        assert Path(get_upload_folder()) == folder
        assert [(path, named) for _, path, named in kept] == [(str(folder), {"ignore_errors": True})]
    finally:
        folder.rmdir()


def test_a_file_outside_the_upload_folder_is_refused_like_one_that_is_not_there(tmp_path: Path) -> None:
    inside, outside = tmp_path / "uploads", tmp_path / "secret.png"
    inside.mkdir()
    Image.new("RGB", (8, 8)).save(outside)
    (inside / "link.png").symlink_to(outside)
    messages = set()
    for path in (
        str(outside),
        "/etc/passwd",
        str(inside / "none.png"),
        str(inside / "link.png"),
        None,
        "../secret.png",
    ):
        with pytest.raises(StudioError) as caught:
            read_upload(path, inside)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_a_good_picture_comes_upright_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 20)).save(path, exif=exif)
    upload = read_upload(str(path), tmp_path)
    assert upload.image.size == (20, 40)
    assert upload.file == path


def test_the_field_turns_refusals_into_toasts_with_escaped_text() -> None:
    folder = Path(get_upload_folder())
    folder.mkdir(parents=True, exist_ok=True)
    with gr.Blocks():
        field = picture_field()
    assert field.preprocess(None) is None
    # Gradio makes the field anew where an answer changes it.
    for each in (field, type(field)(**field.constructor_args)):
        with pytest.raises(gr.Error) as caught:
            each.preprocess(SimpleNamespace(path="/etc/passwd"))  # pyright: ignore[reportArgumentType]
        assert "not an uploaded picture" in caught.value.message
    assert field.get_block_name() == gr.Image().get_block_name()


def test_error_text_cannot_bring_its_own_markup() -> None:
    from studio.failures import told

    def fail() -> None:
        raise StudioError("class <script>x</script> & more")

    with pytest.raises(gr.Error) as caught:
        told(fail)()
    assert "<script>" not in caught.value.message
    assert "&lt;script&gt;" in caught.value.message
