"""A forked process that tells messages, and is ended when it is silent for too long."""

import contextlib
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator

from rungwatch.backends.supervise import signal_name
from rungwatch.measure.messages import Entered, Message, decode, encode

_READ_BYTES = 2**16

type Tell = Callable[[Message], None]


class Child:
    """One forked process; only this one is ever ended from here."""

    def __init__(self, work: Callable[[Tell], None]) -> None:
        """Fork, and have the child do `work` with a function that tells its messages."""
        self.hung = False
        self.exit_code: int | None = None
        self._pipe, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._pipe)
            _be_child(work, writing)
        os.close(writing)

    def messages(self, within_s: float) -> Iterator[Message]:
        """Yield what the child tells until it is gone, and reap it.

        Its first message must come within that time, and each step end within its own
        (`Entered.within_s`): else the child is `hung`, and ended.
        """
        try:
            yield from self._hear(time.monotonic() + within_s)
        finally:
            os.close(self._pipe)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)  # not reaped yet: the id is still its own
            self.exit_code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def describe(self) -> str:
        """Say how it ended."""
        if self.exit_code is not None and self.exit_code < 0:
            return f"signal {signal_name(-self.exit_code)}"
        return f"exit code {self.exit_code}"

    def _hear(self, ends_s: float) -> Iterator[Message]:
        rest = b""
        while True:
            wait_s = max(0.0, ends_s - time.monotonic())
            if not select.select([self._pipe], [], [], wait_s)[0]:
                self.hung = True
                return
            data = os.read(self._pipe, _READ_BYTES)
            if not data:  # its end of the pipe is closed when it exits
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                message = decode(line)
                if isinstance(message, Entered):
                    ends_s = time.monotonic() + message.within_s
                yield message


def _be_child(work: Callable[[Tell], None], pipe: int) -> None:
    """Do the work and exit, whatever happens: nothing of the parent may run on in the child."""
    code = 1
    try:

        def tell(message: Message) -> None:
            data = encode(message)
            while data:
                data = data[os.write(pipe, data) :]

        work(tell)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
