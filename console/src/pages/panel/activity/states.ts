import { type Call, openQuestions, type Question, type Session } from "@stellwerk/client";

/** The status of a call. A rejected call has not failed. */
export type State = Call["state"] | "waiting" | "rejected";

/** Returns the status of each call of a session. */
export function statesOf(session: Session): (call: Call) => State {
  const waiting = waitingCalls(session);
  const rejected = new Set(session.questions.filter(isRejected).map(({ toolCallId }) => toolCallId));
  return (call) => {
    if (call.state === "running" && waiting.has(call.id)) return "waiting";
    if (call.state === "error" && call.kind !== "model" && rejected.has(call.toolCallId)) return "rejected";
    return call.state;
  };
}

/** The calls that wait for the user's answer, and all their ancestors. */
function waitingCalls(session: Session): ReadonlySet<string> {
  const found = new Set<string>();
  for (const question of openQuestions(session))
    for (let id = question.callId; id !== null; id = session.calls.get(id)?.parentId ?? null) found.add(id);
  return found;
}

/** By the reject button, or by an answer with the same meaning. */
function isRejected({ kind, state, answer, toolCallId }: Question): boolean {
  if (kind !== "approval" || toolCallId === undefined) return false;
  const given = answer?.data ?? answer?.text;
  const decision = typeof given === "object" && given !== null && "type" in given ? given.type : given;
  return state === "refused" || (state === "answered" && decision === "reject");
}
