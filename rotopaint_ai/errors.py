"""Every error that the product raises on purpose.

    RotopaintError
    |- UsageError            the command or call is wrong                         (exit code 2)
    |  `- BusyError              another process writes there
    |- PlateError            a plate cannot be read or written
    |  |- MissingFrameError      the frame is not there
    |  |- DamagedFrameError      the file is there and cannot be decoded
    |  `- UnsupportedPlateError  decodable in principle, not by this product
    |- CropError             a crop makes no sense for its plate
    |- DocumentError         a shapes document or exchange file is malformed
    |- ProjectError          a project file cannot be opened or written
    |  |- LockedError            somebody else works on it
    |  `- DamagedProjectError    its content is torn; its last good copy is named
    |- PackError             a model pack is incomplete, altered or of the wrong kind
    |- InferenceError        a model could not run as asked
    |  `- DeviceError            the device that was demanded is not available
    |- DiskError             the disk refused, or lost what a job had written     (exit code 5)
    |- ClusterError          the cluster that a show was given to has gone
    |- TrainingError         a dataset or recipe cannot be trained
    |  `- ServerError            a server does not give what it should
    `- CancelledError        the artist or the farm asked to stop

A message is one line: where, got, wanted, what to do.
"""

from __future__ import annotations

MOST_LETTERS = 600  # of a message; what a file says of itself may be longer, and stands in the middle


def in_one_line(text: str) -> str:
    """A text of which names of files and shapes are part, with nothing that breaks its line or that a terminal obeys.

    White space becomes single blanks; what cannot be printed is spelt out, such as `\\x1b`.
    """
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class RotopaintError(Exception):
    """Root of the tree; its text is one line that an artist can act on."""

    def __str__(self) -> str:
        line = in_one_line(super().__str__())
        return line if len(line) <= MOST_LETTERS else f"{line[:400]} ... {line[-150:]}"


class UsageError(RotopaintError):
    """The command line, recipe or call is wrong."""


class BusyError(UsageError):
    """Another process writes there now."""


class PlateError(RotopaintError):
    """A plate cannot be read or written."""


class MissingFrameError(PlateError):
    """A frame of a plate is not on disk."""


class DamagedFrameError(PlateError):
    """A frame is on disk and cannot be decoded."""


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
    """A project file whose content is torn; the message names its last good copy."""


class PackError(RotopaintError):
    """A model pack is incomplete, altered, or not of the kind asked for."""


class InferenceError(RotopaintError):
    """A model could not run as asked."""


class DeviceError(InferenceError):
    """The device that was demanded is not available."""


class DiskError(RotopaintError):
    """The disk refused, or what a job had written there is gone."""


class ClusterError(RotopaintError):
    """The cluster that a show was given to has gone."""


class TrainingError(RotopaintError):
    """A dataset or a recipe cannot be trained."""


class ServerError(TrainingError):
    """A server does not give the files that it should."""


class CancelledError(RotopaintError):
    """Work was stopped because somebody asked for it."""
