"""Requests that arrive in time, or do not."""

import io
import socket
import time
from collections.abc import Callable
from typing import Any

CROWDED = "too many sentences or connections are waiting: try again in a moment."


class NotArrived(Exception):
    """A request that is not there in time, or whose connection is needed by others: status and message of an answer."""


class Arriving(io.RawIOBase):
    """What arrives on a connection until a deadline; a timeout of the socket alone would begin anew with every byte.

    Args:
        connection: the socket.
        gave_way: whether it was closed for others.

    Attributes:
        begun: whether anything of the present request has arrived.
    """

    def __init__(self, connection: socket.socket, gave_way: Callable[[socket.socket], bool]) -> None:
        self._connection, self._gave_way = connection, gave_way
        self.begin(0)

    def begin(self, seconds: float) -> None:
        """Wait so long for another request."""
        self._seconds, self._deadline, self.begun = seconds, time.monotonic() + seconds, False

    def readable(self) -> bool:
        """Return that it can be read, as the base class asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there, or wait for it.

        Raises:
            NotArrived: it is late; the connection was closed for others.
        """
        late = NotArrived(408, f"the request has not arrived as a whole within {self._seconds} seconds.")
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise late
        self._connection.settimeout(left)
        try:
            count = self._connection.recv_into(buffer)
        except TimeoutError:
            raise late from None
        if not count and self._gave_way(self._connection):
            raise NotArrived(503, CROWDED)
        self.begun = True
        return count
