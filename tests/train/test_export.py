"""From a finished run to a folder that load_model and the page open, and to a repository on the Hub."""

import base64
import json
import re
import resource
import shlex
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import HfApi
from PIL import Image

from models import LoadedModel, load_model
from models.checkpoints import export_checkpoint
from models.errors import StudioError
from models.zoo import SHIPPED
from studio.runlog import read_log
from studio.service import Service
from train.__main__ import main
from train.config import load_config
from train.export import CONFIGS, export_run, is_exported, write_card
from train.push import check_repository, push_folder
from train.run_folder import deciding

TOKEN = "hf_of_the_tests"


@dataclass
class FakeHub:
    """The few addresses of the Hub that a push talks to; files of all commits are kept."""

    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    address: str = ""

    def answer(self, path: str, body: bytes, token: str) -> tuple[int, dict[str, Any]]:
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid credentials"}
        if path.endswith("/commit/main"):
            lines = [json.loads(line)["value"] for line in body.splitlines()]
            self.files |= {one["path"]: base64.b64decode(one["content"]) for one in lines if "content" in one}
            return 200, {"commitUrl": f"{self.address}/me/tiny/commit/0", "commitOid": "0" * 40}
        plain = json.loads(body)
        self.asked.append((path, plain))
        if path.endswith("/preupload/main"):
            told = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in plain["files"]]
            return 200, {"files": told}
        return 200, {"url": f"{self.address}/me/tiny"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    # The pretended Hub lies on this machine, so it answers also where the real one must not be asked.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, plain = hub.answer(self.path, body, self.headers.get("Authorization", ""))
            content = json.dumps(plain).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    yield hub
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(diffclip: LoadedModel, tmp_path: Path) -> Path:
    """A finished run: a tiny checkpoint with config and log of a shipped one."""
    run, shipped = tmp_path / "run", SHIPPED / "diffclip-scenes"
    export_checkpoint(diffclip, run / "checkpoint")
    (run / "config.json").write_bytes((shipped / "run.json").read_bytes())
    (run / "log.jsonl").write_bytes((shipped / "log.jsonl").read_bytes())
    return run


def same_model(one: LoadedModel, other: LoadedModel) -> bool:
    theirs = other.module.state_dict()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in one.module.state_dict().items())


def test_an_exported_run_is_opened_by_load_model_and_by_the_page(
    run: Path, tmp_path: Path, diffclip: LoadedModel
) -> None:
    out = export_run(run, tmp_path / "mine")
    assert is_exported(out)
    assert not is_exported(run / "checkpoint")
    assert same_model(load_model(out), diffclip)
    service = Service([out], [])
    assert service.title("mine") == "differential"
    assert service.look("mine", Image.new("RGB", (40, 30), (90, 20, 160))).embedding.shape == (1, 24)
    log = read_log(out / "log.jsonl")
    assert log.bad_lines == 0
    assert "# differential" in (out / "README.md").read_text()


def test_an_export_that_is_cut_leaves_no_folder_of_that_name(run: Path, tmp_path: Path) -> None:
    whole = (run / "log.jsonl").read_bytes()
    (run / "log.jsonl").write_text("")  # the card is written last, and cannot be
    with pytest.raises(IndexError):
        export_run(run, tmp_path / "new" / "mine")
    assert list((tmp_path / "new").iterdir()) == []
    (run / "log.jsonl").write_bytes(whole)
    (tmp_path / "new" / "mine").mkdir()
    assert export_run(run, tmp_path / "new" / "mine") == tmp_path / "new" / "mine"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine"]
    assert is_exported(tmp_path / "new" / "mine")
    with pytest.raises(StudioError, match="is not empty"):
        export_run(run, tmp_path / "new" / "mine")


def test_an_export_that_a_full_disk_cuts_leaves_no_folder_of_that_name(run: Path, tmp_path: Path) -> None:
    size = (run / "checkpoint" / "model.safetensors").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, resource.RLIM_INFINITY))
    try:
        with pytest.raises(StudioError, match=r"mine cannot be written \(File too large\)"):
            export_run(run, tmp_path / "new" / "mine")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert list((tmp_path / "new").iterdir()) == []
    assert is_exported(export_run(run, tmp_path / "new" / "mine"))


def test_the_card_lists_the_files_that_are_there(run: Path, tmp_path: Path) -> None:
    (run / "steps" / "1200").mkdir(parents=True)
    (run / "steps" / "1200" / "config.json").write_text("{}")
    out = export_run(run, tmp_path / "mine")

    def listed() -> set[str]:
        return set(re.findall(r"^- `(.*?)/?`: ", write_card(out).read_text(encoding="utf-8"), re.MULTILINE))

    assert listed() == {path.name for path in out.iterdir()} - {"README.md"}
    assert "`steps/`: the weights after step 1,200" in (out / "README.md").read_text(encoding="utf-8")
    shutil.rmtree(out / "steps")
    (out / "evaluation.json").write_bytes((SHIPPED / "diffclip-scenes" / "evaluation.json").read_bytes())
    assert "evaluation.json" in listed()
    assert "steps" not in listed()


def test_a_card_that_is_written_again_keeps_the_section_that_quotes_a_study_and_no_other(
    run: Path, tmp_path: Path
) -> None:
    card = export_run(run, tmp_path / "mine") / "README.md"
    fresh = card.read_text(encoding="utf-8")
    quoting = "## Beside the others\n\nAll.\n\n<!-- scenes:table -->\n| a |\n<!-- /scenes:table -->\n\n"
    kept = fresh.replace("## Files\n", f"{quoting}## Files\n")
    card.write_text(kept.replace("## Files\n", "## Mine\n\nNothing.\n\n## Files\n"), encoding="utf-8")
    assert write_card(card.parent).read_text(encoding="utf-8") == kept != fresh


def test_the_card_names_a_config_only_where_the_run_has_its_settings(run: Path, tmp_path: Path) -> None:
    command = "    python -m train fit train/configs/diffclip_scenes.toml\n"
    record = json.loads((run / "config.json").read_text())
    record["config"] = deciding(load_config(CONFIGS / "diffclip_scenes.toml", ["workers=3", "stop_after=9"]))
    changed = json.loads(json.dumps(record))
    changed["config"]["optim"]["lr"] = 0.5
    unknown = json.loads(json.dumps(record))
    unknown["config"]["name"] = "mine"
    older = json.loads(json.dumps(record))
    del older["config"]["patch_dropout"], older["config"]["keep_every"]
    for number, (plain, is_named) in enumerate(((record, True), (older, True), (changed, False), (unknown, False))):
        (run / "config.json").write_text(json.dumps(plain))
        card = (export_run(run, tmp_path / str(number)) / "README.md").read_text(encoding="utf-8")
        assert (command in card) == is_named
        assert ("with the settings in `run.json`" in card) != is_named


def test_the_command_of_the_card_measures_what_the_card_says(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = export_run(run, tmp_path / "mine")
    assert main(["evaluate", str(out), "--images", "12"]) == 0
    before, card = (out / "evaluation.json").read_text(), (out / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    python -m train (evaluate .*)$", card, re.MULTILINE)
    (out / "evaluation.json").unlink()
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 0
    assert (out / "evaluation.json").read_text() == before


def test_a_run_whose_last_step_was_left_out_is_exported(run: Path, tmp_path: Path) -> None:
    lines = (run / "log.jsonl").read_text().splitlines()
    (run / "log.jsonl").write_text("\n".join([*lines[:-1], json.dumps(json.loads(lines[-1]) | {"loss": None})]) + "\n")
    out = export_run(run, tmp_path / "mine")
    assert "| loss of the last step | none, it was left out |" in (out / "README.md").read_text()


def test_the_card_of_a_run_on_photographs_says_so_and_gives_no_licence_of_scenes(run: Path, tmp_path: Path) -> None:
    folder = export_run(run, tmp_path / "mine")
    assert "OpenMoji" in (folder / "README.md").read_text(encoding="utf-8")
    plain = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    plain["config"]["data"] = {"tars": "cc3m"}
    (folder / "run.json").write_text(json.dumps(plain), encoding="utf-8")
    card = write_card(folder).read_text(encoding="utf-8")
    assert "the captioned pictures of cc3m" in card
    assert "OpenMoji" not in card
    assert "cc-by-sa" not in card


def test_a_pushed_folder_arrives_whole_and_loads(
    run: Path, tmp_path: Path, hub: FakeHub, diffclip: LoadedModel
) -> None:
    out = export_run(run, tmp_path / "mine")
    assert push_folder(out, "me/tiny", True, HfApi(hub.address, TOKEN)) == "hf-hub:me/tiny"
    path, made = hub.asked[0]
    assert path == "/api/repos/create"
    assert (made["organization"], made["name"]) == ("me", "tiny")
    assert made.get("visibility") == "private" or made.get("private") is True
    assert hub.files == {file.name: file.read_bytes() for file in out.iterdir()}
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, content in hub.files.items():
        (copy / name).write_bytes(content)
    assert same_model(load_model(copy), diffclip)


def test_a_repository_is_public_where_nothing_else_is_asked_for(run: Path, tmp_path: Path, hub: FakeHub) -> None:
    push_folder(export_run(run, tmp_path / "mine"), "me/tiny", api=HfApi(hub.address, TOKEN))
    assert hub.asked[0][1].get("visibility") != "private"
    assert hub.asked[0][1].get("private") is not True


def test_a_push_without_a_token_is_one_sentence_and_the_folder_stays(run: Path, tmp_path: Path, hub: FakeHub) -> None:
    out = export_run(run, tmp_path / "mine")
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    with pytest.raises(StudioError) as refused:
        push_folder(out, "me/tiny", True, HfApi(hub.address, "hf_wrong"))
    assert "401" in str(refused.value)
    assert str(refused.value).endswith(f"log in with `hf auth login`, then run `hf upload me/tiny {out} --private`.")
    assert "\n" not in str(refused.value)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_a_push_without_a_network_is_one_sentence_and_the_folder_stays(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    out = tmp_path / "mine"
    assert main(["export", str(run), str(out), "--push-to-hub", "me/tiny"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1
    assert f"{out} is whole but could not be pushed to me/tiny" in error[0]
    assert load_model(out).title == "differential"


def test_nothing_is_exported_for_a_repository_that_cannot_be(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, sentence in (
        (["--push-to-hub", "tiny"], "is not a Hub repository"),
        (["--push-to-hub", "me/tiny@main"], "names a revision"),
        (["--private"], "name one with --push-to-hub"),
    ):
        assert main(["export", str(run), str(tmp_path / "mine"), *given]) == 2
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "mine").exists()
    assert check_repository("hf-hub:me/tiny") == "me/tiny"
