"""The zip around a PyTorch checkpoint: what it may hold and how large it may become, before PyTorch opens it."""

import zipfile
from pathlib import Path
from typing import BinaryIO

from models.errors import CheckpointError
from models.files.sniff import Limits

_FOLDER = 0x10  # of the attributes of an MS-DOS file


def check_archive(file: BinaryIO, path: Path, limits: Limits) -> None:
    """Check the directory of a zip against the limits and the file's size, and every entry against its checksum.

    PyTorch stores entries as they are, so one that would unfold beyond the file is compressed or shares bytes with
    another; both are refused. PyTorch itself does not look at the checksums.

    Raises:
        CheckpointError: the file is cut, damaged, beyond the limits, TorchScript, or no zip of torch.save.
        zipfile.BadZipFile: an entry is not where the directory says; damaged files make zipfile raise others as well.
    """
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path} is incomplete or damaged: it begins as a zip and its table of contents, at the end, cannot be "
            "read; download or save it again."
        ) from error
    entries = archive.infolist()
    if len(entries) > limits.entries:
        raise CheckpointError(
            f"{path} has {len(entries):,} entries, and {limits.entries:,} may be read: save the weights alone."
        )
    for entry in entries:
        # PyTorch's reader leaves the memory of an entry that is marked as a folder as it happens to be.
        if entry.is_dir() or entry.external_attr & _FOLDER:
            raise CheckpointError(
                f"{path} holds the folder {entry.filename[:80]!r}, which PyTorch never writes: "
                "save the checkpoint again."
            )
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
            raise CheckpointError(
                f"{path} holds the entry {entry.filename[:80]!r} compressed or encrypted, which PyTorch never writes: "
                "unpack it, or save the checkpoint again."
            )
    size, total = file.seek(0, 2), sum(entry.file_size for entry in entries)
    names = {entry.filename for entry in entries}
    if total > size or len(names) < len(entries):
        raise CheckpointError(
            f"{path} claims {total:,} bytes in {len(entries):,} entries of {len(names):,} names and has {size:,} "
            "bytes: it is damaged or made to do harm; save the checkpoint again."
        )
    pickle = archive.getinfo(_described_in(names, path))
    if pickle.file_size > limits.header_bytes:
        raise CheckpointError(
            f"{path} describes its values in {pickle.file_size:,} bytes, more than the {limits.header_bytes:,} that "
            "may be read: save the model's state dict alone."
        )
    if damaged := archive.testzip():
        raise CheckpointError(
            f"{path} is damaged: {damaged[:80]!r} does not have the checksum that was stored with it; "
            "download or save it again."
        )


def _described_in(names: set[str], path: Path) -> str:
    """The entry that describes the values of a PyTorch zip."""
    if any(name.endswith("/constants.pkl") or "/code/" in name for name in names):
        raise CheckpointError(
            f"{path} is a TorchScript archive, which holds a program beside its weights: "
            "choose the safetensors file or the plain state dict of the model."
        )
    if names and all(name.endswith(".npy") for name in names):
        raise CheckpointError(f"{path} is a NumPy .npz archive: save the weights as safetensors.")
    found = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(found) != 1:
        raise CheckpointError(
            f"{path} is a zip that torch.save did not write (it has no data.pkl): unpack it and choose the weight "
            "file in it."
        )
    return found[0]
