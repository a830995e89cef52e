"""What every error must look like on the wire."""

from typing import Any

from httpx2 import Response

__all__ = ["assert_problem"]


def assert_problem(response: Response, status: int, kind: str, pointer: str | None = None) -> dict[str, Any]:
    """Check that ``response`` is a problem (RFC 9457) of ``kind`` which names ``pointer``; return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["type"] == f"urn:coldcast:problem:{kind}", problem
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in response.text
    if pointer is not None:
        assert pointer in [error["pointer"] for error in problem.get("errors", [])], problem
    return problem
