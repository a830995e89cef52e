"""What routes are given: a session that commits before the answer leaves, the champion, the settings."""

from collections.abc import Iterator
from typing import Annotated, cast

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from app.champion import Champion
from app.database.engine import Sessions

__all__ = ["ChampionDependency", "SessionDependency", "SessionsDependency"]


def get_sessions(request: Request) -> Sessions:
    """Return the factory of sessions."""
    return cast(Sessions, request.app.state.sessions)


def get_session(request: Request) -> Iterator[Session]:
    """Yield a session in one transaction: committed when the route returns, rolled back when it raises."""
    with get_sessions(request).begin() as session:
        yield session


def get_champion(request: Request) -> Champion:
    """Return the champion in memory."""
    return cast(Champion, request.app.state.champion)


SessionsDependency = Annotated[Sessions, Depends(get_sessions)]
# scope="function" ends the transaction before the response is sent: a failing commit must not look like a success.
SessionDependency = Annotated[Session, Depends(get_session, scope="function")]
ChampionDependency = Annotated[Champion, Depends(get_champion)]
