"""A connection that waits for a silent run is not one that a proxy, which cuts silent ones after 60 s, would cut."""

import time
import urllib.request

import gradio as gr
import pytest
from raw_requests import ask

from studio.ui import launch_settings

SILENT = 35  # seconds
LONGEST_GAP = 30  # half of what proxies commonly allow


@pytest.mark.slow
def test_a_silent_run_is_kept_alive_by_words_between_and_its_result_arrives() -> None:
    def wait() -> str:
        time.sleep(SILENT)
        return "arrived"

    with gr.Blocks() as demo:
        text = gr.Textbox()
        demo.load(wait, None, text, api_visibility="private")
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    try:
        joined = {"data": [], "fn_index": 0, "session_hash": "silence", "event_data": None}
        assert ask(url, "gradio_api/queue/join", joined)[0] == 200
        last, gaps, said = time.monotonic(), [], ""
        with urllib.request.urlopen(f"{url}gradio_api/queue/data?session_hash=silence", timeout=60) as stream:
            for line in stream:
                now = time.monotonic()
                gaps.append(now - last)
                last, said = now, line.decode()
                if "process_completed" in said:
                    break
        assert "arrived" in said
        assert sum(gaps) >= SILENT
        assert max(gaps) < LONGEST_GAP
    finally:
        demo.close()
