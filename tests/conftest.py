"""Fixtures that every test may use."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of third parties' logs and tables beside a developer's checkout; it is no part of the project."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        reason = (
            f"needs {folder.name}/ beside the checkout: third parties' logs and tables that the project may not ship"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
