"""A place on this machine that answers nothing and notes who came: whether a server fetches what it is told to."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_NOTHING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Listening:
    """Where it listens, and the first line of each request that came."""

    address: str
    requests: list[str] = field(default_factory=list)


@contextmanager
def listening() -> Iterator[Listening]:
    """Open for as long as somebody may come."""
    requests: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            requests.append(self.rfile.readline(4096).decode("latin-1").strip())
            self.wfile.write(_NOTHING)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Listening(f"http://127.0.0.1:{server.server_address[1]}", requests)
        server.shutdown()
