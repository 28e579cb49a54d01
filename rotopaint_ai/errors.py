"""Every error that the product raises on purpose.

    RotopaintError
    |- UsageError            the command or call is wrong                         (exit code 2)
    |  `- BusyError              another process writes to the same place
    |- PlateError            a plate cannot be read or written
    |  |- MissingFrameError      the frame is not there
    |  |- DamagedFrameError      the file cannot be decoded
    |  `- UnsupportedPlateError  a valid file of a kind that this product does not support
    |- CropError             a crop makes no sense for its plate
    |- DocumentError         a shapes document or exchange file is malformed
    |- ProjectError          a project file cannot be opened or written
    |  |- LockedError            somebody else works on it
    |  `- DamagedProjectError    its content is damaged; the message names its last good copy
    |- PackError             a model pack is incomplete, altered or of the wrong kind
    |- InferenceError        a model could not run as asked
    |  `- DeviceError            the device that was demanded is not available
    |- DiskError             the disk failed, or lost what a job had written      (exit code 5)
    |- ClusterError          the cluster that runs a show cannot be reached any more
    |- TrainingError         a dataset or recipe cannot be trained
    |  `- ServerError            a server does not send the expected files
    `- CancelledError        the artist or the farm stopped the work

A message is one line: where, got, wanted, what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_LETTERS = 600  # limit of a message; a quotation from a file can make one too long, and its middle is cut


def in_one_line(text: str) -> str:
    """A text without line breaks and terminal codes, which names of files and shapes may contain.

    White space becomes single blanks; characters that cannot be printed are escaped, such as `\\x1b`.
    """
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def list_names(names: Sequence[object], most: int = 3, between: str = ", ") -> str:
    """Names or frames for a message: the first `most` of them, and how many more there are."""
    more = len(names) - most
    return between.join(map(str, names[:most])) + (f" and {more} more" if more > 0 else "")


class RotopaintError(Exception):
    """Root of the tree; its text is one line that an artist can act on."""

    def __str__(self) -> str:
        line = in_one_line(super().__str__())
        return line if len(line) <= MOST_LETTERS else f"{line[:400]} ... {line[-150:]}"


class UsageError(RotopaintError):
    """The command line, recipe or call is wrong."""


class BusyError(UsageError):
    """Another process is writing to the same folder or file."""


class PlateError(RotopaintError):
    """A plate cannot be read or written."""


class MissingFrameError(PlateError):
    """A frame of a plate is not on disk."""


class DamagedFrameError(PlateError):
    """A frame is on disk but cannot be decoded."""


class UnsupportedPlateError(PlateError):
    """A kind of image that this product does not read or write."""


class CropError(RotopaintError):
    """A crop makes no sense for its plate."""


class DocumentError(RotopaintError):
    """A shapes document or exchange file is malformed."""


class ProjectError(RotopaintError):
    """A project file cannot be opened or written."""


class LockedError(ProjectError):
    """Somebody else has the project open for writing."""


class DamagedProjectError(ProjectError):
    """The content of a project file is damaged; the message names its last good copy."""


class PackError(RotopaintError):
    """A model pack is incomplete, altered, or of the wrong kind."""


class InferenceError(RotopaintError):
    """A model could not run as requested."""


class DeviceError(InferenceError):
    """The requested device is not available."""


class DiskError(RotopaintError):
    """The disk reported an error, or files that a job had written are gone."""


class ClusterError(RotopaintError):
    """The cluster that runs a show cannot be reached any more."""


class TrainingError(RotopaintError):
    """A dataset or a recipe cannot be trained."""


class ServerError(TrainingError):
    """A server does not send the expected files."""


class CancelledError(RotopaintError):
    """The work was stopped on request."""
