"""What a person can put right. Anything else that is raised is a mistake of this program."""


class GradiconError(ValueError):
    """Something given is wrong: one line that names the thing and says what to do."""


class MissingFileError(GradiconError, FileNotFoundError):
    """A file or folder that was named is not there."""


class FileInTheWayError(GradiconError, FileExistsError):
    """Something stands where results should go."""


class UnwritableError(GradiconError, OSError):
    """A result could not be written: no room, no permission, a folder that is not there."""


class MissingPackageError(GradiconError, ImportError):
    """What was asked for needs a package that is not installed."""


class UsageError(GradiconError):
    """The arguments of a command do not go together: the program ends with exit code 2."""
