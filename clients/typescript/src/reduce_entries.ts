import type { AskUserEnvelope, LlmTokenEnvelope, MessageEnvelope, UserAnswerEnvelope } from "./envelope.gen.js";
import type { Entry, MessageEntry, Question, Session } from "./session.js";

type Entries = readonly Entry[];
type Drafts = readonly MessageEntry[];

export function said(session: Session, envelope: MessageEnvelope): Session {
  const { payload } = envelope;
  const id = payload.message_id;
  if (payload.action === "removed") return removed(session, id);
  const drafts = session.drafts.filter((draft) => draft.messageId !== id);
  // A message keeps the rest of its content when a file is removed.
  if (payload.redacted && payload.content.length === 0) return { ...session, drafts };
  const entry: MessageEntry = {
    ...placed(envelope),
    kind: "message",
    state: "said",
    messageId: id,
    role: payload.role,
    text: payload.content.map((part) => (part.type === "text" ? part.text : "")).join(""),
    content: payload.content,
    status: payload.status,
    documents: payload.documents,
    output: payload.output,
    author: payload.author,
    ...parametersOf(payload),
    callId: session.calls.has(id) ? id : undefined,
  };
  return { ...session, drafts, entries: [...session.entries, entry] };
}

function parametersOf({ input, config, context }: MessageEnvelope["payload"]): Pick<MessageEntry, "parameters"> {
  if (input === undefined && config === undefined && context === undefined) return {};
  return {
    parameters: { ...(input === undefined ? {} : { input }), ...(config && { config }), ...(context && { context }) },
  };
}

/** Removes the entry with this id, as in the log; content derived from it stays. */
function removed(session: Session, id: string): Session {
  const isIt = (one: Entry) => (one.kind === "message" ? one.messageId : one.callId) === id;
  const gone = session.entries.find(isIt);
  if (gone === undefined) return session;
  const left = { ...session, entries: session.entries.filter((one) => !isIt(one)) };
  if (gone.kind === "message") {
    const call = session.calls.get(id);
    return call?.kind === "model"
      ? { ...left, calls: session.calls.with(id, { ...call, text: "", reasoning: "" }) }
      : left;
  }
  const blank = gone.kind === "question" ? UNASKED : { answer: { ts: gone.ts } };
  return {
    ...left,
    questions: session.questions.map((one) => (one.askId === gone.askId ? { ...one, ...blank } : one)),
  };
}

const UNASKED: Partial<Question> = {
  ...{ question: "", schema: undefined, options: undefined, default: undefined, args: undefined, data: undefined },
};

export function asked(session: Session, envelope: AskUserEnvelope): Session {
  const { payload } = envelope;
  const question: Question = {
    askId: payload.ask_id,
    question: payload.question,
    kind: payload.kind ?? "question",
    state: "open",
    schema: payload.schema,
    options: payload.options,
    default: payload.default,
    toolName: payload.tool_name,
    toolCallId: payload.tool_call_id,
    args: payload.args,
    data: payload.data,
    agent: envelope.agent,
    runId: envelope.run_id,
    callId: envelope.parent_id,
    askedAt: envelope.ts,
    position: envelope.position,
  };
  const { askId, options } = question;
  const entry: Entry = {
    ...placed(envelope),
    ...{ kind: "question", role: "assistant", text: payload.question, askId, options, callId: envelope.call_id },
  };
  return {
    ...session,
    lastActivity: envelope.ts,
    questions: [...session.questions.filter((one) => one.askId !== askId), question],
    entries: payload.redacted ? session.entries : [...session.entries, entry],
  };
}

export function answered(session: Session, envelope: UserAnswerEnvelope): Session {
  const { ask_id: askId, text, data, refused = false, redacted } = envelope.payload;
  const state = refused ? "refused" : "answered";
  const answer = { text, data, ts: envelope.ts };
  const entry: Entry = {
    ...placed(envelope),
    ...{ kind: "answer", role: "user", text: text ?? "", askId, data, refused, callId: envelope.call_id },
  };
  return {
    ...session,
    lastActivity: envelope.ts,
    questions: session.questions.map((one) => (one.askId === askId ? { ...one, state, answer } : one)),
    entries: redacted ? session.entries : [...session.entries, entry],
  };
}

/** A message that a model starts to write; its text is in the call. */
export function writing(envelope: LlmTokenEnvelope, messageId: string): MessageEntry {
  return {
    ...placed(envelope),
    ...{ kind: "message", state: "streaming", role: "assistant", text: "", messageId, callId: envelope.call_id },
  };
}

/** The drafts after a model call ended: its text is complete, or it was interrupted and does not count. */
export function draftsAfter(drafts: Drafts, callId: string, state: "written" | "abandoned"): Drafts {
  return drafts.some((draft) => draft.callId === callId)
    ? drafts.map((draft) => (draft.callId === callId ? { ...draft, state } : draft))
    : drafts;
}

/** Drops drafts that never became messages: the agent continued without them, or repeats an interrupted one. */
export function settled(drafts: Drafts): Drafts {
  return drafts.every((draft) => draft.state === "streaming")
    ? drafts
    : drafts.filter((draft) => draft.state === "streaming");
}

/** Drops the entries of these runs and messages, except the message that another run answers now. */
export function withoutRuns(
  entries: Entries,
  runs: ReadonlySet<string>,
  messages: ReadonlySet<string | undefined>,
  kept: string | undefined,
): Entries {
  const isGone = (entry: Entries[number]) => runs.has(entry.runId ?? "");
  const asked = entries.map((entry) => (entry.kind === "question" && isGone(entry) ? entry.askId : undefined));
  return entries.filter((entry) => {
    // An answer belongs to no run while other questions are open.
    if (entry.kind === "answer" && asked.includes(entry.askId)) return false;
    if (entry.kind !== "message") return !isGone(entry);
    return entry.messageId === kept || !(isGone(entry) || messages.has(entry.messageId));
  });
}

function placed(envelope: MessageEnvelope | AskUserEnvelope | UserAnswerEnvelope | LlmTokenEnvelope) {
  return { position: envelope.position, ts: envelope.ts, agent: envelope.agent, runId: envelope.run_id };
}
