"""What a page may open: everything a person has on their own machine, a frozen list where anyone may come.

The mode is decided once, when the server starts, and every request is held against it here; that the page shows other
fields in public is convenience, not protection.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from models import StudioError, available_models

PUBLIC_VARIABLE = "DIFFCLIP_STUDIO_PUBLIC"
ROOTS_VARIABLE = "DIFFCLIP_STUDIO_ROOTS"
HUB, OPEN_CLIP = "hf-hub:", "open_clip:"
_MIB = 2**20
_FILE = re.compile(r"[/\\]|\.(?:safetensors|pt|pth|bin|ckpt)$")
# A repository as people write it, or as its page's address has it.
_REPOSITORY = re.compile(r"(?:https?://huggingface\.co/)?([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)/?")
_ELSEWHERE = "What is on the Hub is named hf-hub:organisation/name, what open_clip lists open_clip:ViT-B-16/openai."
_NO_UPLOADS = "This page is public and takes no checkpoints: start the studio on your own machine for that."


@dataclass(frozen=True)
class Allowed:
    """A repository that a public page may load, at one commit: what was looked at is what is loaded.

    Attributes:
        title: how a person reads it.
        repository: "organisation/name" on the Hub.
        revision: the full commit.
    """

    title: str
    repository: str
    revision: str

    @property
    def reference(self) -> str:
        """As `models.load_model` takes it."""
        return f"{HUB}{self.repository}@{self.revision}"


ALLOWED = (
    Allowed("CLIP ViT-B/32, OpenAI", "openai/clip-vit-base-patch32", "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268"),
    Allowed("CLIP ViT-B/16, OpenAI", "openai/clip-vit-base-patch16", "57c216476eefef5ab752ec549e440a49ae4ae5f3"),
)


@dataclass(frozen=True)
class Policy:
    """What this server opens for the people on its page.

    Attributes:
        public: whether only shipped models and `allowed` may be loaded, and no checkpoint is taken.
        allowed: what may be loaded from the Hub in public.
        roots: folders under which paths may be named where the page is not public.
        upload_bytes: the largest file that the server takes.
        model_bytes: how much is kept of models.
    """

    public: bool
    allowed: tuple[Allowed, ...] = ALLOWED
    roots: tuple[Path, ...] = ()

    @property
    def upload_bytes(self) -> int:
        """The largest file that the server takes, pictures and checkpoints alike."""
        return (30 if self.public else 8192) * _MIB

    @property
    def model_bytes(self) -> int:
        """How much is kept of models: a free Space has little memory."""
        return (1536 if self.public else 12288) * _MIB

    def check_uploads(self) -> None:
        """Refuse a checkpoint that was sent as a file; pictures, and logs of runs, are taken everywhere.

        Raises:
            StudioError: the page is public.
        """
        if self.public:
            raise StudioError(_NO_UPLOADS)

    def reference(self, text: str) -> str:
        """What a person named -> what `models.load_model` may be given.

        Raises:
            StudioError: nothing was named, or it may not be opened here.
        """
        text = text.strip()
        if not text:
            raise StudioError("No model is named: write a name, or choose a file.")
        if text in available_models():
            return text
        if self.public:
            return self._on_the_list(text)
        if text.startswith(HUB):
            return text
        try:
            if text.startswith(OPEN_CLIP):
                architecture, _, tag = text.removeprefix(OPEN_CLIP).partition("/")
                return f"{OPEN_CLIP}{architecture}/{self.path(tag)}" if _FILE.search(tag) else text
            return str(self.path(text))
        except StudioError as error:
            near = get_close_matches(text, available_models(), 1)
            # By how it is written alone: nothing is looked up for it.
            if repository := _REPOSITORY.fullmatch(text):
                near = [HUB + repository[1]]
            meant = f"Did you mean {near[0]}?" if near else _ELSEWHERE
            raise StudioError(f"{error} {meant}") from None

    def path(self, text: str) -> Path:
        """The file or folder that a person named, from anywhere or from a root; it must lie under one of the roots.

        What is not there and what is not allowed get the same answer, so nothing can be found out by asking.

        Raises:
            StudioError: the page is public, or there is nothing under the roots of that name.
        """
        if self.public:
            raise StudioError("This page is public and opens no paths: start the studio on your own machine for that.")
        try:
            for start in (Path(), *self.roots):
                path = (start / Path(text).expanduser()).resolve()
                if any(path.is_relative_to(root) for root in self.roots) and path.exists():
                    return path
        except (OSError, RuntimeError, ValueError):
            pass
        raise StudioError(
            f"{_short(text)} is nothing that this page opens: name a file or folder under "
            f"{' or '.join(map(str, self.roots)) or 'a folder of ' + ROOTS_VARIABLE}, or start the page with "
            f"{ROOTS_VARIABLE} set to other folders."
        )

    def _on_the_list(self, text: str) -> str:
        for entry in self.allowed:
            if text in (entry.reference, entry.repository, HUB + entry.repository):
                return entry.reference
        names = ", ".join((*available_models(), *(entry.repository for entry in self.allowed)))
        raise StudioError(f"This page is public and {_short(text)} is not on its list: choose one of {names}.")


def policy_of(environment: Mapping[str, str] = os.environ) -> Policy:
    """The policy that the environment asks for: public on a Space unless it says otherwise.

    DIFFCLIP_STUDIO_PUBLIC is 1 or 0. DIFFCLIP_STUDIO_ROOTS names the folders whose files may be named on the page,
    separated as in PATH; the folder in which the server was started if it is not set.
    """
    said = environment.get(PUBLIC_VARIABLE, "").strip().lower()
    public = said not in ("0", "false", "no", "off") if said else bool(environment.get("SPACE_ID"))
    named = [part for part in environment.get(ROOTS_VARIABLE, "").split(os.pathsep) if part.strip()]
    roots = tuple(Path(part).expanduser().resolve() for part in named or ["."])
    return Policy(public, ALLOWED, () if public else roots)


def _short(text: str) -> str:
    """What a person wrote, cut where it is long."""
    return repr(text if len(text) <= 80 else text[:79] + "…")
