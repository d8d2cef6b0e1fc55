"""Start the page: `python app.py`. GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where it listens."""

import os

from models.allocator import share_one_heap
from studio.ui import build_app, launch_settings
from studio.uploads import own_folder

share_one_heap()
own_folder()
demo = build_app()

if __name__ == "__main__":
    demo.launch(server_name=os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"), **launch_settings())
