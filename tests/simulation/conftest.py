"""Simulated worlds log nothing: each of their processes would."""

import logging
from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True, scope="session")
def silence() -> Generator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
