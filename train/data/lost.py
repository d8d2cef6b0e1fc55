"""How many samples shards that end early have lost, by the shards that are whole: an estimate.

What a broken tar does not show cannot be counted. A shard that is cut, or of which nothing can be read, is taken to
have held as many samples as a whole one does on average; where bytes are left behind the place at which reading ended,
as many samples as those bytes make.
"""

from collections.abc import Sequence

from train.data.tar_index import Shard


def lost_samples(shards: Sequence[Shard]) -> int:
    """About how many samples were lost with the ends of these shards, beside those in their `left_out`."""
    early = [shard for shard in shards if ends_early(shard)]
    # Where none is whole, the fullest of them is the best that is known.
    whole = [shard for shard in shards if not ends_early(shard)] or sorted(early, key=_held)[-1:]
    held = sum(map(_held, whole))
    usual, size = max(1, round(held / max(1, len(whole)))), sum(shard.at for shard in whole) / max(1, held)
    return sum(max(0, _lost(shard, usual, size)) for shard in early)


def ends_early(shard: Shard) -> bool:
    """Whether samples of it are missing: a tar that was never closed has lost none, unless it is empty."""
    return shard.end not in ("whole", "no end mark") or not shard.size


def _held(shard: Shard) -> int:
    """Samples that its headers show, usable or not."""
    return len(shard.records) + sum(shard.left_out.values())


def _lost(shard: Shard, usual: int, size: float) -> int:
    """`usual` samples a shard, `size` bytes a sample."""
    behind = round((shard.size - shard.at) / size) if size else 0
    if not _held(shard):
        return max(usual, behind)
    return usual - _held(shard) if shard.end == "cut" else behind
