"""What ends a run or a call; told in the log, never as an answer to a request."""

from stellwerk.errors.base import StellwerkError


class ScriptedFailure(StellwerkError):
    code = "scripted_failure"


class ToolTimeout(StellwerkError):
    code = "tool_timeout"

    def __init__(self, tool: str, seconds: float) -> None:
        self.tool, self.seconds = tool, seconds
        super().__init__(f"the tool {tool!r} took longer than {seconds:g} s and was given up; ask it for less at once")


class ToolFailed(StellwerkError):
    code = "tool_failed"

    def __init__(self, tool: str, problem: str) -> None:
        self.tool = tool
        super().__init__(f"the tool {tool!r} {problem}")


class PlanRefused(StellwerkError):
    """What a project manager wrote is no plan, or one that cannot be carried out."""

    code = "plan_refused"


class QuotaExceeded(StellwerkError):
    """All agents of a run together have used up one of its quotas, or all runs of its tenant one of theirs."""

    code = "quota_exceeded"

    def __init__(self, quota: str, *, used: float, limit: float, said: str | None = None) -> None:
        self.quota, self.used, self.limit = quota, used, limit
        super().__init__(
            said
            or f"the run has used {used:g} of the {limit:g} {quota} that one run may use; "
            f"ask for less at a time, or raise quotas.{quota} in the agent system"
        )


class Fenced(StellwerkError):
    """The lease has moved on: somebody else drives this session now."""

    code = "fenced"

    def __init__(self, session_id: str, epoch: int) -> None:
        self.session_id, self.epoch = session_id, epoch
        super().__init__(f"epoch {epoch} of session {session_id} is over; whoever held it writes nothing more")


class Crashed(StellwerkError):
    code = "crashed"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the run was cut off and cannot go on: {reason}; send the message again if you want it done")


class Paused(StellwerkError):
    code = "paused"

    def __init__(self) -> None:
        super().__init__("the graph was asked to pause, and can go on from its last checkpoint")


class BlockedLoop(StellwerkError):
    """Synchronous code on the event loop, or a thread that the loop waits for, needs the loop to go on."""

    code = "agent_failed"

    def __init__(self) -> None:
        super().__init__(
            "a graph was called with invoke() or stream() on the event loop, which would wait for itself for ever; "
            "await ainvoke() or astream() in an async function, or make the node or tool a plain def"
        )


class CorruptStore(StellwerkError):
    code = "corrupt_store"
