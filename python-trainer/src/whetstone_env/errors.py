# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in an episode, by whose fault it is: never a reward of 0 (I6)."""

from __future__ import annotations

import traceback
from pathlib import Path

# Far more than anybody reads; what env-runner and trainer keep of an error is shorter still.
MAX_MESSAGE = 1000
OURS = str(Path(__file__).parent)


class EpisodeError(Exception):
    """Ends the episode. `code` is one of EnvironmentError in proto/whetstone/environments/v1/environments.proto."""

    def __init__(self, code: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message[:MAX_MESSAGE]
        self.field = field


class TaskError(EpisodeError):
    """For environments to raise: the arguments or the task are broken. `field` is a path such as "args.size"."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__("TASK", message, field)


class LoadError(Exception):
    """What was named on the command line cannot be served; the text says why and what to do."""


def words_of(error: BaseException) -> str:
    """The error's own words, and the line of the user's code that raised it: `ValueError: odd (guess.py:12)`."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(OURS)]
    # The deepest line of the user's own; libraries, which lie in site-packages, come after it.
    own = [frame for frame in frames if "site-packages" not in frame.filename and "lib/python" not in frame.filename]
    last = (own or frames or [None])[-1]
    where = f" ({Path(last.filename).name}:{last.lineno})" if last else ""
    return f"{type(error).__name__}: {error}{where}"[:MAX_MESSAGE]


def failure_of(error: BaseException, code: str = "ENVIRONMENT") -> EpisodeError:
    """Whatever an environment raises, as the failure that it is."""
    return error if isinstance(error, EpisodeError) else EpisodeError(code, words_of(error))
