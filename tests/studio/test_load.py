"""Many people at once: everybody gets the answer to their own question, and the server's memory does not grow."""

import base64
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from raw_page import RawPage

from models import available_models
from studio.duel import FEWEST_POINTS
from studio.examples import picture_token
from studio.reading import MapReader, layer_server, numbers_server
from studio.service import RECORDING_BYTES, Service
from studio.ui import build_app, launch_settings

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("clip-scenes", "diffclip-scenes")
CLIENTS = 20
# What the server process may grow by between 100 and 300 pictures, in MB. Of recordings it keeps 160 MB, which some 30
# pictures fill. The smallest thing that could stay by mistake, one map of one layer, is 0.6 MB a picture: 120 MB. What
# is kept on purpose, the pictures, is 2.5 MB; the rest of the 28 to 36 MB that were measured are gaps in the heap.
RECORDINGS, GROWTH = 160, 60.0
# What the server may need at most, in MB: so much must a machine have free. And how many pictures each client brings:
# enough for the recordings to be full and some to be let go.
LIMIT, PICTURES_EACH = 4 * 1024, 4
# What draws charts: the event (of two with one name the sweep of λ is the second), what its fields hold otherwise than
# when the page opens, by their place after the models, each time another, and how many charts come of it.
CHARTS: tuple[tuple[str, Callable[[int], dict[int, Any]], int], ...] = (
    ("run_duel", lambda turn: {0: f"a cat {turn}", 1: "", 4: FEWEST_POINTS}, 2),
    ("sweep", lambda turn: {2: turn, 6: 1}, 1),
    ("sweep_1", lambda turn: {3: f"photo {turn} of a {{}}"}, 1),
)


def noise(seed: int) -> Image.Image:
    """A picture that nobody else has, also in its size."""
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (64, 64 + seed % 5, 3), dtype=np.uint8))


def questions(client: int, token: str, layers: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What client number `client` asks of its picture: a layer of one model, and the numbers of one of its rows."""
    model, kind = SHIPPED[client % 2], "weights" if client % 3 else "value"
    readout = {"token": token, "layer": client % layers, "alpha": 1.5 if client % 4 == 3 else 1, "source": "qk"}
    rows = [{"model": model, "kind": "weights", "head": client % 2, "query": client % 7}]
    return (
        readout | {"model": model, "kinds": [kind], "heads": ["mean", 1]},
        readout | {"direction": "reads" if client % 5 else "read by", "panels": rows},
    )


def values_of(answer: dict[str, Any]) -> dict[str, np.ndarray]:
    """Maps of an answer as floats (S, Nq, Nk)."""
    shape, found = (len(answer["slots"]), answer["queries"], answer["keys"]), {}
    for kind, each in answer["maps"].items():
        steps = np.frombuffer(base64.b64decode(each["steps"]), "<i2").reshape(shape)
        top = np.frombuffer(base64.b64decode(each["top"]), "<f4").reshape(*shape[:2], 1)
        found[kind] = np.sign(steps) * (steps / 32767.0) ** 2 * top
    return found


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two answers are the same but for the last digits of sums in another order."""
    left, right = values_of(one), values_of(other)
    return left.keys() == right.keys() and all(
        left[kind].shape == right[kind].shape
        and np.allclose(left[kind], right[kind], rtol=1e-4, atol=float(np.abs(right[kind]).max()) / 8000)
        and ((left[kind] == 0) == (right[kind] == 0)).all()
        for kind in left
    )


def defined(numbers: dict[str, float | None]) -> dict[str, float]:
    """Numbers with NaN for what is undefined, which can be compared."""
    return {name: np.nan if value is None else value for name, value in numbers.items()}


@pytest.fixture(scope="module")
def page(folders: tuple[Path, Path]) -> Iterator[RawPage]:
    demo = build_app(folders)
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    yield RawPage.at(address)
    demo.close()


def test_everyone_gets_the_answer_to_their_own_question(page: RawPage, folders: tuple[Path, Path]) -> None:
    reader = MapReader(Service(folders, ()))
    asked = [questions(client, picture_token(noise(client)), layers=3) for client in range(CLIENTS)]

    def visit(client: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
        visitor, (layer, numbers) = page.visitor(), asked[client]
        seen = visitor.look(noise(client), SHIPPED[client % 2], SHIPPED[1 - client % 2])
        return seen["token"], visitor.ask("get_layer", layer), visitor.ask("get_numbers", numbers)

    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(visit, range(CLIENTS)))
    expected = []
    for client, (layer, numbers) in enumerate(asked):
        reader.service.look(SHIPPED[client % 2], noise(client))
        expected.append((layer_server(reader)(layer), numbers_server(reader)(numbers)))
    for client, (token, layer, numbers) in enumerate(answers):
        assert token == picture_token(noise(client))
        assert [other for other in range(CLIENTS) if alike(layer, expected[other][0])] == [client]
        (found,), (own,) = numbers["panels"], expected[client][1]["panels"]
        for part in ("measures", "control"):
            assert defined(found[part]) == pytest.approx(defined(own[part]), rel=1e-4, abs=1e-5, nan_ok=True)


# A line on its input has the server count what it holds: open figures of pyplot, charts of plotly, hooks, modules.
SERVE = """
import gc, sys
from torch import nn
from models.allocator import share_one_heap
from studio.ui import build_app, launch_settings
share_one_heap()
demo = build_app(sys.argv[2:], recording_bytes=int(sys.argv[1]) * 2**20)
_, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
print("at", address, flush=True)
for _ in sys.stdin:
    gc.collect()
    pyplot = sys.modules.get("matplotlib.pyplot")
    modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
    hooks = sum(len(each._forward_hooks) + len(each._forward_pre_hooks) + len(each._backward_hooks) for each in modules)
    kinds = map(type, gc.get_objects())
    charts = sum(kind.__name__ == "Figure" and kind.__module__.startswith("plotly") for kind in kinds)
    print(len(pyplot.get_fignums()) if pyplot else 0, charts, hooks, len(modules), flush=True)
"""


@dataclass(frozen=True)
class Held:
    """What a server holds, counted: open figures of pyplot, charts of plotly, hooks on modules of torch, and those."""

    figures: int
    charts: int
    hooks: int
    modules: int


@dataclass(frozen=True)
class Server:
    """A page that is served by a process of its own."""

    page: RawPage
    process: subprocess.Popen[str]

    def resident(self, measure: str = "VmRSS") -> float:
        """Memory of the process in MB, or the most it ever had (VmHWM)."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(measure)) / 1024

    def held(self) -> Held:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("count\n")
        self.process.stdin.flush()
        return Held(*map(int, self.process.stdout.readline().split()))


@contextmanager
def serving(recordings: int, models: Sequence[str]) -> Iterator[Server]:
    """The page on shipped models or checkpoint folders; it keeps so many MB of recordings."""
    command = [sys.executable, "-c", SERVE, str(recordings), *models]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        address = next((line.split()[1] for line in process.stdout if line.startswith("at ")), "")
        assert address, "the server ended before it served"
        yield Server(RawPage.at(address), process)
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def served() -> Iterator[Server]:
    with serving(RECORDINGS, SHIPPED) as server:
        yield server


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory of a process is read from /proc")
def test_the_server_with_all_shipped_models_never_needs_four_gigabytes() -> None:
    names = list(available_models())
    assert set(SHIPPED) < set(names)
    with serving(RECORDING_BYTES // 2**20, names) as server:

        def visit(client: int) -> None:
            visitor = server.page.visitor()
            for turn in range(PICTURES_EACH):
                left, right = names[(client + turn) % len(names)], names[(client + turn + 1) % len(names)]
                token = visitor.look(noise(PICTURES_EACH * client + turn), left, right)["token"]
                layer, _ = questions(client, token, layers=4)
                assert "error" not in visitor.ask("get_layer", layer | {"model": left})

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(visit, range(CLIENTS)))
        most = server.resident("VmHWM")
    print(f"{len(names)} models, {PICTURES_EACH * CLIENTS} pictures: {most:.0f} MB at most")
    assert most < LIMIT


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory of a process is read from /proc")
def test_memory_stays_flat_from_the_hundredth_to_the_three_hundredth_picture(served: Server) -> None:
    visitors = [served.page.visitor() for _ in range(CLIENTS)]

    def visit(turn: int) -> None:
        visitor = visitors[turn % CLIENTS]
        token = visitor.look(noise(turn), *SHIPPED)["token"]
        layer, numbers = questions(turn, token, layers=4)
        answers = visitor.ask("get_layer", layer), visitor.ask("get_numbers", numbers)
        # Of more pictures at once than are kept, some are let go before they are asked about.
        assert all("error" not in answer for answer in answers), answers

    def visits(turns: range) -> None:
        # One thread a visitor: a tab waits for its answer before it asks again.
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda first: [visit(turn) for turn in turns if turn % CLIENTS == first], range(CLIENTS)))

    visits(range(100))
    before = served.resident()
    visits(range(100, 300))
    after = served.resident()
    print(f"resident: {before:.0f} MB after 100 pictures, {after:.0f} MB after 300")
    assert after - before < GROWTH


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory of a process is read from /proc")
def test_memory_stays_flat_over_three_hundred_figures_that_are_taken_away(served: Server) -> None:
    visitor = served.page.visitor()
    token = visitor.look(noise(0), *SHIPPED)["token"]

    def take(turn: int) -> None:
        kinds = ("weights", "a1", "subtracted", "positive")
        panels = [{"model": SHIPPED[0], "kind": "weights"}, {"model": SHIPPED[1], "kind": kinds[turn % 4]}]
        drawing = ("patches", "smooth")[turn % 2]
        answer = visitor.ask("take_away", {"token": token, "panels": panels, "layer": turn % 6, "drawing": drawing})
        assert "error" not in answer, answer

    for turn in range(100):
        take(turn)
    before = served.resident()
    for turn in range(100, 300):
        take(turn)
    after = served.resident()
    print(f"resident: {before:.0f} MB after 100 figures, {after:.0f} MB after 300")
    assert after - before < GROWTH


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory of a process is read from /proc")
def test_memory_stays_flat_over_three_hundred_charts_and_no_figure_or_hook_stays(folders: tuple[Path, Path]) -> None:
    """Duels and both sweeps in turn, each by the handler that the page's button calls."""
    with serving(RECORDINGS, [str(folder) for folder in folders]) as server:
        visitor = server.page.visitor()
        picture = visitor.upload(noise(0))
        names = [folder.name for folder in folders]

        def draw(turn: int) -> None:
            event, other, charts = CHARTS[turn % len(CHARTS)]
            # Time, picture and models come first; the rest is what the fields hold.
            fields = [other(turn).get(at, field) for at, field in enumerate(server.page.fields[event][4:])]
            answer = visitor.event(event, [1.0, picture, *names, *fields])
            assert "rom memory" not in str(answer)
            assert sum("plotly" in str(each)[:200] for each in answer) == charts, answer

        for turn in range(100):
            draw(turn)
        # To count takes memory too, so it comes after.
        memory, before = server.resident(), server.held()
        for turn in range(100, 300):
            draw(turn)
        grown, after = server.resident() - memory, server.held()
    print(f"resident: {memory:.0f} MB after 100 charts, {grown:.0f} MB more after 300; {before}, then {after}")
    assert after.modules > 0
    assert after == before
    assert (after.figures, after.charts, after.hooks) == (0, 0, 0)
    assert grown < GROWTH
