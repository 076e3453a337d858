import type { Envelope } from "./envelope.gen.js";
import { callEnded, modelStarted, modelWrote, toolStarted, toolUpdated } from "./reduce_calls.js";
import { answered, asked, said } from "./reduce_entries.js";
import { documentChanged, logged, problemReported, stateChanged } from "./reduce_facts.js";
import { resumed, runEnded, runStarted } from "./reduce_runs.js";
import type { Session } from "./session.js";

/**
 * Applies an envelope to a session. Pure: returns a new session that shares all unchanged parts with the old one. An
 * envelope that was applied before changes nothing.
 */
export function reduce(session: Session, envelope: Envelope): Session {
  if (envelope.position <= session.position) return session;
  return { ...applied(session, envelope), position: envelope.position };
}

function applied(session: Session, envelope: Envelope): Session {
  switch (envelope.type) {
    case "run_start":
      return runStarted(session, envelope);
    case "run_end":
      return runEnded(session, envelope);
    case "message":
      return said(session, envelope);
    case "llm_start":
      return modelStarted(session, envelope);
    case "llm_token":
      return modelWrote(session, envelope);
    case "tool_start":
      return toolStarted(session, envelope);
    case "tool_update":
      return toolUpdated(session, envelope);
    case "llm_end":
    case "tool_end":
      return callEnded(session, envelope);
    case "subgraph_resume":
      return resumed(session, envelope);
    case "ask_user":
      return asked(session, envelope);
    case "user_answer":
      return answered(session, envelope);
    case "state":
      return stateChanged(session, envelope);
    case "document":
      return documentChanged(session, envelope);
    case "log":
      return logged(session, envelope);
    case "stop_request":
      return { ...session, stopping: session.status === "running" };
    case "warning":
    case "error":
      return problemReported(session, envelope);
    case "subgraph_checkpoint":
    case "update":
      return session;
    default:
      return unknownType(session, envelope);
  }
}

/** An unknown type: a compile-time error, ignored at run time. */
function unknownType(session: Session, _: never): Session {
  return session;
}
