"""What was skipped, counted by reason, and when that is too much to go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from models.errors import StudioError
from train.data.batch import Batch
from train.data.sample import REASONS, Skip, Source, told

SHOWN = 3
_SURE = 6.0


@dataclass(frozen=True)
class SkipLimit:
    """The greatest share of samples that may be skipped, looked at once `after` samples have been seen.

    Raises:
        StudioError: not a share.
    """

    share: float = 0.01
    after: int = 1000

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise StudioError(f"skip.share = {self.share} must be a share from 0 to 1, as 0.01.")


@dataclass(frozen=True)
class Tally:
    """What one rank has seen and skipped. `counts` is (samples seen, skips by reason in the order of REASONS).

    With several ranks the sum of their `counts` is what `check_counts` wants, so that all stop alike or none does.
    """

    counts: tuple[int, ...] = (0,) * (1 + len(REASONS))
    examples: tuple[Skip, ...] = ()

    def plus(self, batch: Batch) -> "Tally":
        """The tally after a batch; padding is not a sample."""
        reasons = [skip.reason for skip in batch.skipped]
        added = (int((batch.indices >= 0).sum()), *(reasons.count(reason) for reason in REASONS))
        return Tally(plus(self.counts, added), (*self.examples, *batch.skipped)[:SHOWN])


def plus(counts: Sequence[int], added: Sequence[int]) -> tuple[int, ...]:
    """The sum of two counts, of which the first may be ()."""
    return tuple(old + new for old, new in zip(counts or (0,) * len(added), added, strict=True))


def check_counts(
    counts: Sequence[int], limit: SkipLimit, examples: Sequence[Skip] = (), epoch_ended: bool = False
) -> None:
    """Stop where too much was skipped. `counts` is a Tally's, or the sum over ranks.

    Raises:
        StudioError: more than `limit.share` of the samples seen, once there were `limit.after`, or at an epoch's end.
    """
    seen, by_reason = int(counts[0]), dict(zip(REASONS, (int(count) for count in counts[1:]), strict=True))
    skipped = sum(by_reason.values())
    if skipped > limit.share * seen and (epoch_ended or seen >= limit.after):
        raise StudioError(
            f"{skipped:,} of {seen:,} samples could not be used ({told(by_reason)}), more than the "
            f"{limit.share:.2%} that may be skipped{shown(examples)}: repair the data, as `python -m train check-data` "
            f"shows it, or raise skip.share (now {limit.share:g}), with which a run goes on."
        )


def check_epoch(counts: Sequence[int], limit: SkipLimit, examples: Sequence[Skip] = ()) -> None:
    """Stop where more of this epoch was skipped than the limit and chance explain: `counts` is the epoch's alone.

    Over a whole run the share says little late: a disk that is lost in the last epochs would cost many of them. Samples
    come in a random order, so at a share that is just allowed the skips of a part of an epoch are more than expected by
    `_SURE` standard deviations in one of a million parts or fewer.

    Raises:
        StudioError: more than that were skipped, once there were `limit.after` samples.
    """
    seen, skipped = int(counts[0]), sum(map(int, counts[1:]))
    expected = limit.share * seen
    if seen >= limit.after and skipped > expected + _SURE * sqrt(expected):
        by_reason = dict(zip(REASONS, (int(count) for count in counts[1:]), strict=True))
        raise StudioError(
            f"{skipped:,} of the {seen:,} samples of this epoch could not be used ({told(by_reason)}), far more than "
            f"the {limit.share:.2%} that may be skipped{shown(examples)}: see whether the disk with the data is still "
            f"there; the same command then goes on. Or raise skip.share (now {limit.share:g})."
        )


def check_source(source: Source, limit: SkipLimit) -> None:
    """Stop before training where too many samples were left out without having been read.

    Raises:
        StudioError: more than `limit.share` of all, or none is left.
    """
    left_out = dict(source.left_out)
    count = sum(left_out.values())
    if not len(source):
        raise StudioError(
            f"{source.describe()}: no sample can be used ({told(left_out)}){shown(source.examples)}; look at it with "
            "`python -m train check-data`."
        )
    check_counts([len(source) + count, *(left_out.get(reason, 0) for reason in REASONS)], limit, source.examples, True)


def shown(examples: Sequence[Skip]) -> str:
    """ ", for example 'a' (no caption)", or "" without examples."""
    some = ", ".join(f"{skip.key!r} ({skip.reason})" for skip in examples[:SHOWN])
    return f", for example {some}" if some else ""
