"""torch.compile on the blocks of both towers."""

from models.build import ClipModule, text_blocks, vision_blocks
from models.errors import StudioError


def compile_blocks(clip: ClipModule, backend: str = "inductor") -> None:
    """Compile every transformer block in place; parameter names, and so checkpoints, stay as they are.

    Blocks of one tower share their compiled code, which takes a fraction of the time that compiling a tower takes. What
    draws random numbers, patch dropout, stays outside: compiled code draws others with a graph than without one, and
    accumulation must draw the same twice.

    Raises:
        StudioError: neither tower has blocks that are known.
    """
    blocks = vision_blocks(clip) + text_blocks(clip)
    if not blocks:
        raise StudioError(f"{type(clip.visual).__name__} has no transformer blocks to compile: train it uncompiled.")
    for block in blocks:
        block.compile(backend=backend)
