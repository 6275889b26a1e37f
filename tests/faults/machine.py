"""What a test needs of the machine it runs on, and may not get there."""

import os
import warnings


class DidNotRun(UserWarning):
    """Something could not be tried on this machine."""


def did_not_run(what: str, why: object) -> None:
    """Say at the end of the test run that this was not tried. A failure where CI runs."""
    text = f"{what} was not tried on this machine: {why}"
    assert os.environ.get("CI") != "true", text
    with warnings.catch_warnings():
        warnings.simplefilter("default", DidNotRun)  # told at the end of the run, no error
        warnings.warn(DidNotRun(text), stacklevel=2)
