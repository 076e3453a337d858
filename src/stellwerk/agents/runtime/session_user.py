"""The user of a session, in the form in which LangGraph's own server gives one to graphs."""

from collections.abc import Sequence
from typing import Any

USER_ID = "user_id"
"""In the config: the user of the session; also a field of context schemas that declare it."""
_AUTH_USER = "langgraph_auth_user"
_AUTH_USER_ID = "langgraph_auth_user_id"
USER_KEYS = (USER_ID, _AUTH_USER, _AUTH_USER_ID)


class SessionUser(dict[str, Any]):
    """A ``BaseUser`` of LangGraph's SDK: read by key or by attribute, and plain JSON."""

    def __init__(self, user_id: str) -> None:
        super().__init__(identity=user_id, display_name=user_id, is_authenticated=True, permissions=[])

    @property
    def identity(self) -> str:
        return str(self["identity"])

    @property
    def display_name(self) -> str:
        return str(self["display_name"])

    @property
    def is_authenticated(self) -> bool:
        return bool(self["is_authenticated"])

    @property
    def permissions(self) -> Sequence[str]:
        return list(self["permissions"])


def user_in_config(user_id: str | None) -> dict[str, Any]:
    """The keys of ``configurable`` that name the user; none for a session without one."""
    if user_id is None:
        return {}
    return {USER_ID: user_id, _AUTH_USER: SessionUser(user_id), _AUTH_USER_ID: user_id}
