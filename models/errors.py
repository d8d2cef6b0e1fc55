"""The project's own exceptions: each message is one sentence with the value, the rule and what to do."""


class StudioError(ValueError):
    """Something a person asked for cannot be done; `str(error)` tells them why and what to do instead.

    Only these are shown to users as they are. Any other exception is a fault of the program.
    """


class CheckpointError(StudioError):
    """A checkpoint cannot be found, is not what it should be, or does not fit its configuration."""


class PictureError(StudioError):
    """A file is not a picture that can be read, or it is beyond the limits on size and shape."""


class RecordingError(StudioError):
    """A recording lacks the layer that is asked for, or no longer describes the model."""


class UnsupportedAttentionError(RecordingError):
    """An attention module is of a type whose projections are not known; the message names it."""


class UndefinedMapError(StudioError):
    """The map that is asked for does not exist for this kind of attention."""
