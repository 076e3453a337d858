import { describe, expect, test } from "vitest";
import { openNotices } from "./checklist.js";
import type { Envelope } from "./envelope.gen.js";
import { reduce } from "./reduce.js";
import type { TranscriptEntry } from "./responses.js";
import {
  blockerOf,
  childrenOf,
  conversation,
  openQuestions,
  progressOf,
  reasoningOf,
  textOf,
  tokensOf,
} from "./select.js";
import { type Call, EMPTY, type Entry, type Run, type Session } from "./session.js";
import { folded, NAMES, run, views } from "./testing/golden.js";

describe.each(NAMES)("the golden run %s", (name) => {
  const envelopes = run(name);
  const session = folded(envelopes);
  const expected = views(name);

  test("has the transcript of the server's view", () => {
    const counts = session.entries.filter((entry) => entry.kind !== "message" || entry.state === "said");
    expect(counts.map(asInTranscript)).toEqual(expected.transcript);
  });

  test("has the state of the server's views", () => {
    const { usage, questions, open_questions, ...state } = expected.state;
    expect(stateOf(session)).toEqual(state);
    expect(openNotices(session.checklist, "question")).toEqual(open_questions);
    expect(openQuestions(session).map((one) => one.askId)).toEqual(questions.map((one: Question) => one.ask_id));
    expect(usageOf(session)).toEqual(usage);
    expect(session.checklist).toEqual(expected.checklist);
    expect(session.documents.map((one) => [one.documentId, one.name, one.size])).toEqual(
      expected.documents.map((one: Filed) => [one.document_id, one.name, one.size]),
    );
  });

  test("has every call under its parent, and none open at the end", () => {
    const walked = session.runs.flatMap((one) => [...below(session, one)]);
    expect(walked).toHaveLength(session.calls.size);
    expect(walked).toHaveLength(envelopes.filter(({ type }) => type === "llm_start" || type === "tool_start").length);
    if (session.status !== "running") expect(walked.filter((call) => call.state === "running")).toEqual([]);
  });

  test("is the same when envelopes are repeated or reduced in two halves", () => {
    let twice = EMPTY;
    for (const envelope of envelopes) {
      twice = reduce(twice, envelope);
      expect(reduce(twice, envelope)).toBe(twice);
    }
    expect(twice).toEqual(session);
    expect(folded(envelopes, session)).toBe(session);
    const half = envelopes.length >> 1;
    expect(folded(envelopes.slice(half), folded(envelopes.slice(0, half)))).toEqual(session);
  });

  test("does not mutate earlier sessions", () => {
    const kept: [Session, string][] = [];
    envelopes.reduce((before, envelope) => {
      kept.push([before, JSON.stringify(plain(before))]);
      return reduce(before, envelope);
    }, EMPTY);
    for (const [before, text] of kept) expect(JSON.stringify(plain(before))).toBe(text);
  });

  test("is the same with and without debug envelopes", () => {
    const shown = envelopes.filter(({ type }) => type !== "subgraph_checkpoint" && type !== "update");
    expect({ ...folded(shown), position: session.position }).toEqual(session);
  });
});

test("an answer and its reasoning can be read while they stream", () => {
  const seen = new Set<string>();
  const session = run("reasoning").reduce((before, envelope) => {
    const after = reduce(before, envelope);
    const last = conversation(after).at(-1);
    if (last?.kind === "message" && last.role === "assistant") seen.add(textOf(after, last));
    return after;
  }, EMPTY);
  expect([...seen]).toEqual(["", "It ", "It is ", "It is 42."]);
  const answer = session.entries.at(-1);
  expect(answer?.kind === "message" && reasoningOf(session, answer)).toBe("They ask for a number.");
});

test("an answer interrupted by a stop stays visible and is marked", () => {
  const session = folded(run("stopped"));
  const last = session.entries.at(-1) as Entry;
  expect(last).toMatchObject({ kind: "message", state: "abandoned" });
  expect(textOf(session, last)).toBe("one two three ");
  expect(session).toMatchObject({ status: "stopped", stopping: false });
});

test("an answer interrupted by a crash disappears when the run resumes", () => {
  const envelopes = run("stopped").filter(({ type }) => type !== "stop_request" && type !== "run_end");
  const { position, origin, session_id, ts, run_id } = envelopes.at(-1) as Envelope;
  const resume: Envelope = {
    ...{ type: "subgraph_resume", position: position + 1, origin, session_id, ts, run_id },
    ...{ parent_id: null, call_id: run_id ?? "", seq: 99 },
    payload: { checkpoint_id: "c", node: "model", attempt: 2 },
  };
  const session = folded([...envelopes, resume]);
  expect(folded(envelopes).drafts.map((draft) => draft.state)).toEqual(["abandoned"]);
  expect(conversation(session).every((entry) => entry.kind !== "message" || entry.state === "said")).toBe(true);
  expect(session.runs.at(-1)).toMatchObject({ attempt: 2, status: "running" });
});

test("a regenerated answer replaces the first, and a removed message disappears", () => {
  const envelopes = run("plain-answer");
  const first = folded(envelopes);
  const [start, message, answer] = ["run_start", "message", "message"].map((type, index) =>
    index < 2 ? envelopes.find((one) => one.type === type) : envelopes.findLast((one) => one.type === type),
  ) as [Envelope & { type: "run_start" }, Envelope & { type: "message" }, Envelope & { type: "message" }];
  const again: Envelope = {
    ...start,
    ...{ position: first.position + 1, run_id: "again", call_id: "again" },
    payload: { ...start.payload, round: 2, trigger: "regenerate", replaces: start.call_id },
  };
  const regenerated = folded([again], first);
  expect(regenerated.entries.map((entry) => entry.position)).toEqual([message.position]);
  expect(regenerated.runs.map((one) => one.replacedBy)).toEqual(["again", undefined]);
  const removal: Envelope = {
    ...answer,
    position: first.position + 1,
    payload: { ...answer.payload, content: [], action: "removed" },
  };
  expect(folded([removal], first).entries.map((entry) => entry.position)).toEqual([message.position]);
});

test("an edited message replaces its round and all later ones", () => {
  const first = folded(run("question-answered"));
  const later = run("plain-answer").map((one) => ({ ...one, position: one.position + first.position }) as Envelope);
  const both = folded(later, first);
  const [runOfQuestion, runOfAnswer] = first.runs;
  const start = later.find((one) => one.type === "run_start") as Envelope & { type: "run_start" };
  const message = later.find((one) => one.type === "message") as Envelope & { type: "message" };
  const place = { run_id: "edit", trace_id: "edit", position: both.position + 1 };
  for (const replaces of [runOfQuestion?.id, runOfAnswer?.id]) {
    const started = { ...start.payload, message_id: "new", round: both.round + 1, replaces };
    const edit: Envelope = { ...start, ...place, call_id: "edit", payload: started };
    const said: Envelope = { ...message, ...place, position: place.position + 1, call_id: "m" };
    const edited = folded([edit, { ...said, payload: { ...message.payload, message_id: "new" } }], both);
    expect(edited.entries.map((entry) => entry.kind === "message" && entry.messageId)).toEqual(["new"]);
    expect(edited.runs.map((one) => one.replacedBy)).toEqual([...both.runs.map(() => "edit"), undefined]);
  }
});

test("a removal has the same effect on an open page as on a reloaded one", () => {
  const names = ["content", "documents", "text", "schema", "options", "default", "args", "data"];
  const nothing = Object.fromEntries(names.map((name) => [name, undefined]));
  for (const name of ["plain-answer", "reasoning", "question-answered", "approval-rejected"]) {
    const envelopes = run(name);
    for (const said of envelopes.filter(({ type }) => ["message", "ask_user", "user_answer"].includes(type))) {
      const id = said.type === "message" ? said.payload.message_id : said.call_id;
      const payload = { message_id: id, role: "user", content: [], status: "first", action: "removed" };
      const removal = { ...said, type: "message", position: envelopes.length + 1, payload } as Envelope;
      const stored = envelopes.map((one) => {
        const left = one.type === "llm_token" && one.call_id === id ? { text: "" } : one === said ? nothing : {};
        const empty = one === said ? { content: [], question: "", redacted: true } : {};
        return { ...one, payload: { ...one.payload, ...left, ...empty } } as Envelope;
      });
      const open = folded([...envelopes, removal]);
      expect(plain(open)).toEqual(plain(folded([...stored, removal])));
      expect(open.entries.map((entry) => entry.position)).not.toContain(said.position);
    }
  }
});

test("nothing remains of a removed interrupted answer; a message keeps its text when its file is removed", () => {
  const stopped = run("stopped").map((one) =>
    one.type === "llm_token" ? { ...one, payload: { ...one.payload, text: "", redacted: true } } : one,
  );
  expect(folded(stopped).entries.filter((entry) => entry.kind === "message" && entry.state !== "said")).toEqual([]);
  const answer = run("plain-answer").map((one) =>
    one.type === "message" ? { ...one, payload: { ...one.payload, redacted: true } } : one,
  );
  expect(folded(answer).entries.map((entry) => entry.text)).toEqual(
    folded(run("plain-answer")).entries.map((entry) => entry.text),
  );
});

test("an unknown type advances the position and changes nothing else", () => {
  const unknown = { ...run("plain-answer")[0], type: "tomorrow", position: 9 } as unknown as Envelope;
  expect(reduce(EMPTY, unknown)).toEqual({ ...EMPTY, position: 9 });
});

test("a token changes nothing but its own call", () => {
  const envelopes = run("nested-agents");
  const at = envelopes.findLastIndex(({ type }) => type === "llm_token");
  const before = folded(envelopes.slice(0, at));
  const after = folded(envelopes.slice(at, at + 1), before);
  const changed = [...after.calls.values()].filter((call) => before.calls.get(call.id) !== call);
  expect(changed.map((call) => call.id)).toEqual([envelopes[at]?.call_id]);
});

interface Question {
  ask_id: string;
}
interface Filed {
  document_id: string;
  name: string;
  size: number;
}

function* below(session: Session, of: Call | Run): Generator<Call> {
  for (const call of childrenOf(session, of)) {
    yield call;
    yield* below(session, call);
  }
}

function stateOf(session: Session) {
  const { percent, message, tasksOver, tasks } = progressOf(session);
  return {
    status: session.status,
    round: session.round,
    run_id: session.runId ?? null,
    awaiting_user_input: session.awaitingUserInput,
    version: session.checklist.version,
    tasks: session.checklist.tasks,
    blocker: blockerOf(session),
    progress: { percent, message, tasks_over: tasksOver, tasks },
    last_activity: session.lastActivity,
  };
}

function usageOf(session: Session) {
  const { models, modelCalls, toolCalls, runs, seconds } = session.usage;
  const { inputTokens, outputTokens } = tokensOf(session);
  return {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    ...{ model_calls: modelCalls, tool_calls: toolCalls, runs, seconds },
    models: Object.entries(models).map(([model, used]) => ({
      model,
      ...{ input_tokens: used.inputTokens, output_tokens: used.outputTokens, calls: used.calls },
    })),
  };
}

function asInTranscript(entry: Entry): TranscriptEntry {
  const { position, kind, role, text, agent, runId: run_id, ts } = entry;
  const common = { position, kind, role, text, ...withoutUndefined({ agent, run_id }), ts };
  if (entry.kind === "question")
    return { ...common, ask_id: entry.askId, ...withoutUndefined({ options: entry.options }) };
  if (entry.kind === "answer") {
    return {
      ...common,
      ask_id: entry.askId,
      ...withoutUndefined({ data: entry.data, refused: entry.refused || undefined }),
    };
  }
  const { content, messageId: message_id, status, documents, author } = entry;
  return { ...common, ...withoutUndefined({ content, message_id, status, documents, author }) };
}

function withoutUndefined<Fields extends object>(fields: Fields): Partial<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<Fields>;
}

function plain(session: Session) {
  return { ...session, calls: [...session.calls.values()], logs: [...session.logs] };
}
