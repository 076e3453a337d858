"""What /usage and the limits of a tenant answer."""

from msgspec import Struct

from stellwerk.tenants.limits import Limits
from stellwerk.tenants.quotas import Used
from stellwerk.tenants.usage import UsageRow


class UsagePage(Struct, frozen=True, kw_only=True):
    """What a tenant may use, what it uses now and has used today; and what was used, the newest day first.

    ``next`` is the ``after`` of the next page.
    """

    tenant: str
    limits: Limits
    used: Used
    usage: list[UsageRow]
    next: int | None


ANSWERS = (Limits, UsagePage)
