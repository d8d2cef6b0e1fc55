"""`python app.py`, as the README says it, from any folder: a page that answers, on two trained models."""

import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

APP = Path(__file__).parents[2] / "app.py"


def test_the_app_starts_from_any_folder_and_its_page_answers(tmp_path: Path) -> None:
    environment = os.environ | {"GRADIO_SERVER_NAME": "127.0.0.1", "PYTHONUNBUFFERED": "1"}
    for name in ("GRADIO_SERVER_PORT", "GRADIO_TEMP_DIR"):
        environment.pop(name, None)
    log = tmp_path / "app.log"
    with log.open("w") as out:
        app = subprocess.Popen([sys.executable, str(APP)], cwd=tmp_path, env=environment, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 120
        while not (address := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
            assert app.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        with urllib.request.urlopen(address.group(), timeout=30) as answer:
            assert answer.status == 200
            page = answer.read().decode()
        assert "DiffCLIP Studio" in page
        assert "/diffclip-studio-" in page, "what it is sent lies in a folder of its own"
    finally:
        app.terminate()
        app.wait(timeout=30)
