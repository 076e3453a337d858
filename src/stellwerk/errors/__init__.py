"""Every exception that Stellwerk raises on purpose: what happened, and what to do now.

StellwerkError
├── InvalidInput        400  the request cannot be understood; names the field
│   ├── BadCursor       400  a cursor that is no position
│   ├── InvalidField    422  a field with a value that cannot be accepted
│   ├── TooLarge        413  more bytes than one request may have
│   ├── HeadersTooLarge 431  more bytes than its headers may have
│   └── WrongMediaType  415  a body of a kind that is not taken here
├── SpecError           422  an agent system that cannot be built
│   ├── UnknownProvider 422  a model of a provider that nobody knows
│   └── UnknownTool     422  a tool that nobody registered
├── SystemChanged       409  a registered system that can no longer be built here
├── MissingSecret       409  a key that a model or tool needs and nobody stored
├── MissingPackage      501  an optional package that is not installed
├── ScriptedFailure      —   the scripted model fails because its script says so
├── ToolTimeout          —   a tool took longer than it may
├── ToolFailed           —   a tool ended without a result
├── PlanRefused          —   the plan of a workflow that cannot be carried out
├── ExtractionError     422  a document that cannot be read
├── McpUnreachable      503  an MCP server that does not answer or cannot be started
├── NotFound            404  no such session, system, …; also: not yours
├── Unauthorized        401  nobody knows who asks
├── Forbidden           403  it is known who asks, and he may not
├── Refused             403  a request from a page or host that we do not trust
├── Conflict            409  not in this state of the session
│   └── PatchRefused    409  a change of the checklist that does not fit its state
├── Overloaded          429  more runs are waiting than the server takes
├── LimitReached        429  a tenant, or a session, has used what it may
├── StorageFull         507  the disk is full; nothing was written
├── StorageGone         503  the database cannot be reached, or was deleted or replaced
│   └── StorageClosed   503  the server is shutting down
├── QuotaExceeded        —   the run, or its tenant, has used up what it may; it ends as failed
├── Fenced               —   the lease has moved on; stop at once, write nothing more
├── Crashed              —   a run was cut off, and what it was doing must not be done again
├── Paused               —   the graph stopped between two steps because it was asked to; it can go on
├── BlockedLoop          —   synchronous code on the event loop would wait for the loop itself
├── CorruptStore         —   stored bytes that must not be read
└── SettingsError        —   the server cannot start like this
    ├── BrokenReference  —   code that the operator named cannot be imported
    └── InvalidTool      —   a function that cannot be a tool as it is written
"""

from stellwerk.errors.base import (
    BadCursor,
    Conflict,
    Forbidden,
    HeadersTooLarge,
    InvalidField,
    InvalidInput,
    LimitReached,
    NotFound,
    Overloaded,
    PatchRefused,
    Refused,
    StellwerkError,
    StorageClosed,
    StorageFull,
    StorageGone,
    TooLarge,
    Unauthorized,
    WrongMediaType,
)
from stellwerk.errors.building import (
    BrokenReference,
    InvalidTool,
    McpUnreachable,
    MissingPackage,
    MissingSecret,
    SettingsError,
    SpecError,
    SpecProblem,
    SystemChanged,
    UnknownProvider,
    UnknownTool,
)
from stellwerk.errors.documents import ExtractionError
from stellwerk.errors.running import (
    BlockedLoop,
    CorruptStore,
    Crashed,
    Fenced,
    Paused,
    PlanRefused,
    QuotaExceeded,
    ScriptedFailure,
    ToolFailed,
    ToolTimeout,
)

__all__ = [
    "BadCursor",
    "BlockedLoop",
    "BrokenReference",
    "Conflict",
    "CorruptStore",
    "Crashed",
    "ExtractionError",
    "Fenced",
    "Forbidden",
    "HeadersTooLarge",
    "InvalidField",
    "InvalidInput",
    "InvalidTool",
    "LimitReached",
    "McpUnreachable",
    "MissingPackage",
    "MissingSecret",
    "NotFound",
    "Overloaded",
    "PatchRefused",
    "Paused",
    "PlanRefused",
    "QuotaExceeded",
    "Refused",
    "ScriptedFailure",
    "SettingsError",
    "SpecError",
    "SpecProblem",
    "StellwerkError",
    "StorageClosed",
    "StorageFull",
    "StorageGone",
    "SystemChanged",
    "TooLarge",
    "ToolFailed",
    "ToolTimeout",
    "Unauthorized",
    "UnknownProvider",
    "UnknownTool",
    "WrongMediaType",
]
