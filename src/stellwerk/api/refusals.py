"""Refusals: every problem that a route may answer with, as an example, made by what makes the real ones."""

from stellwerk.api.credentials import last_admin_key
from stellwerk.api.parameters import unknown
from stellwerk.api.problems import Problem, of_invalid, problem_of
from stellwerk.errors import (
    BadCursor,
    Conflict,
    Forbidden,
    HeadersTooLarge,
    InvalidField,
    InvalidInput,
    McpUnreachable,
    MissingPackage,
    MissingSecret,
    NotFound,
    Overloaded,
    Refused,
    SpecError,
    SpecProblem,
    StorageFull,
    StorageGone,
    SystemChanged,
    TooLarge,
    Unauthorized,
    WrongMediaType,
)
from stellwerk.log.tables import unknown_session
from stellwerk.tenants.limits import Excess
from stellwerk.workflows.folds import unknown_workflow
from stellwerk.workflows.starting import still_working

_SESSION = "034yEnpqoVHlJvW0id6mKI"
_ASK = "6d5f0c1f0b8a4d7e"


def _invalid(field: str, said: str) -> Problem:
    return problem_of(InvalidField(f"{field}: {said}", field=field))


def _conflict(code: str, said: str) -> Problem:
    return problem_of(Conflict(said, code=code))


NO_SESSION = problem_of(unknown_session(_SESSION))
NO_SYSTEM = problem_of(NotFound("agent system", "helpdsk", remedy="there are: demo, helpdesk"))
NO_VERSION = problem_of(NotFound("version", "9 of helpdesk", remedy="there are: 1, 2"))
NO_TOOL = problem_of(NotFound("tool", "get_wether", remedy="GET /tools lists those that there are"))
NO_FILE = problem_of(NotFound("file", "abc", remedy="it was deleted, or never there"))

NO_WORKFLOW = problem_of(unknown_workflow(_SESSION))
NO_MESSAGE = problem_of(NotFound("message", "msg_x", remedy="GET …/messages lists those of this workflow"))

NO_TENANT = problem_of(NotFound("tenant", "acme", remedy="GET /tenants lists those that there are"))
NO_SECRET = problem_of(NotFound("secret", "openai_api_key", remedy="GET /secrets lists those that there are"))
NO_KEY = problem_of(NotFound("key", "4fJq0aZ81xYb", remedy="GET /keys lists those that there are"))

CURSOR = problem_of(BadCursor("yesterday"))
MEDIA_TYPE = problem_of(WrongMediaType("an agent system is sent with Content-Type: application/yaml"))
FILE_TYPE = problem_of(WrongMediaType("a file is sent as multipart/form-data, in the field 'file'"))
FORM = problem_of(InvalidInput("the form cannot be read (Missing boundary in multipart.); send one file"))
TOO_LARGE = problem_of(TooLarge("the body has more than 1048576 bytes; a long text goes as a file", field="body"))
NOT_JSON = of_invalid({"type": "json_invalid", "loc": ("body", 9), "ctx": {"error": "Expecting value"}}, what="body")
MISSING = of_invalid({"type": "missing", "loc": ("body", "text"), "msg": "Field required"}, what="body")
LIMIT = _invalid("limit", "this must be 500 or less")
UNTIL = _invalid("until", "this must be 'run_end'")
DRY_RUN = _invalid("dry_run", "this must be true or false")
VERSION = _invalid("version", "this must be 1 or more")
NO_SYSTEM_NAMED = _invalid("agent_system_id", "this must not be empty")
SECRET_NAME = _invalid("name", "'OPENAI' cannot be a secret's; small letters, digits and underscores, …")
NOT_LOCKED = _invalid("name", "'local' is whoever runs the server; revoke its keys one by one")
NO_FILE_SENT = _invalid("file", "send the file in this field of the form, with a file name")
NAME_TOO_LONG = _invalid("name", "this must not have more than 1000 characters")
KEY_TOO_LONG = _invalid("Idempotency-Key", "this must not have more than 255 characters")
BODY = (NOT_JSON, TOO_LARGE, MISSING)
_SLIP = unknown("limits", ("before", "limit"))
PARAMETER = problem_of(_SLIP)
BAD_PARAMETER = Problem(400, _SLIP.code, _SLIP.message, field=_SLIP.field)
BAD_INPUT = Problem(400, "invalid_field", "prompt: this field is required", field="prompt")
NOT_IN_WORKFLOW = Problem(400, "invalid_input", "id: there is no such message in this workflow", field="id")
"""Where everything that is sent wrong is 400."""

QUESTION_OPEN = _conflict("question_open", f"the session waits for answers to its questions; answer them first: {_ASK}")
BUSY = (
    _conflict("session_busy", "the session is still working on round 2; send this again when it has ended, or …"),
    QUESTION_OPEN,
)
UNASKED = (
    _conflict("nothing_asked", "nothing is asked in this session; send a message instead"),
    _conflict("not_asked", f"the question 'x' is not open; open are: {_ASK}"),
    _conflict("which_question", f"several questions are open; say in ask_id which one is answered: {_ASK}, …"),
)
AT_WORK = _conflict("session_busy", "the workflow is at work, or waits for an answer; stop it, or send this again …")
STILL_WORKING = problem_of(still_working(_SESSION))
KEY_REUSED = _conflict("key_reused", "this Idempotency-Key was used with another request; take a new key")
NOTHING_SAID = _conflict("nothing_said", "there is no answer yet that could be given anew; send a message")
UNFORKABLE = (
    _conflict("no_run_ended", "no run of this session has ended yet; fork it when one has"),
    _conflict("not_a_run_end", "position 3 is not the end of a run that is over; the nearest is 23"),
)
TENANT_EXISTS = _conflict("tenant_exists", "there is a tenant 'acme' already; choose another name")
LAST_KEY = problem_of(last_admin_key("acme"))
TWO_KEYS = _conflict("two_keys_valid", "two keys named 'ci' are valid already; revoke the older one, or choose …")
TOO_MANY_KEYS = _conflict("too_many_keys", "a tenant has at most 1000 keys; revoke those that nobody uses")
TOO_MANY_SECRETS = _conflict("too_many_secrets", "a tenant has at most 100 secrets; delete one that nobody uses")
FILE_IN_USE = _conflict("file_in_use", "this file belongs to a session and goes with it: delete the session")
SYSTEM_GIVEN = _conflict("system_given", "the server was started with the agent system 'demo'; start it without")
UNUSABLE = (
    _conflict("system_gone", "the agent system 'helpdesk' of this session was deleted; register it again"),
    problem_of(SystemChanged("helpdesk", 2, "the tool 'search' is not registered")),
    problem_of(MissingSecret("openai_api_key", user="openai:gpt-5")),
)
BAD_SYSTEM = problem_of(
    SpecError.of("body", (SpecProblem("there is no tool 'get_wether'", "agents[0].tools.allow[0]", 7, 15),))
)
NO_PACKAGE = problem_of(MissingPackage("openai:gpt-5", install="path/to/stellwerk[openai]"))
NO_MCP_SERVER = problem_of(McpUnreachable("notes", "it did not answer within 10 s"))

OVERLOADED = problem_of(Overloaded("as many of your runs wait as this server takes; send this again in a few seconds"))
FULL = problem_of(StorageFull())
GONE = problem_of(StorageGone("the server is shutting down; send this again when it is back"))
STORED = (FULL, GONE)

ANYWHERE = (
    problem_of(Unauthorized("this server asks who you are; send your key as Authorization: Bearer sw_…")),
    problem_of(Forbidden("this needs the scope 'run', which your key does not have; ask an admin of your tenant")),
    problem_of(Refused("the Host header names a machine that this server is not; use 127.0.0.1 or localhost")),
    problem_of(HeadersTooLarge("address and headers have more than 65536 bytes; send less of them")),
    problem_of(Excess("requests", 600, 600, 17).refusal()),
    Problem(500, "internal", "something went wrong here that is not your fault; it was logged"),
    Problem(503, "not_opened", "the server was mounted, but not opened; open it in the lifespan of the app"),
)
