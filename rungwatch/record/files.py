"""Write files so that a reader, a second run or a killed run never sees half of one."""

import errno
import os
import stat
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step, making its folder where it is missing.

    A link is followed; what is no regular file (a pipe) is written to as it is.

    Raises:
        OSError: the folder can't be written, or the disk is full; `path` is as it was then.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():  # a pipe, /dev/stdout: must not be replaced
        path.write_bytes(data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp gives 0600; a record is meant to be read by whoever may read its folder.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Read a file that foreign code may have made: a link, a pipe or a flood is an error.

    Raises:
        OSError: it is no regular file, larger than `most_bytes`, or can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, f"{path.name} is no regular file")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"{path.name} is larger than {most_bytes} bytes")
    return data
