import { EMPTY, type Envelope, reduce, type Session } from "@stellwerk/client";
import { expect, test } from "vitest";
import { isPlanning, tasksOf } from "./tasks";

type Payloads = { readonly [Type in Envelope["type"]]: Extract<Envelope, { type: Type }>["payload"] };

/** A session with these events, in order. */
function session(
  ...events: { [Type in Envelope["type"]]: [Type, Payloads[Type], string?] }[Envelope["type"]][]
): Session {
  return events.reduce((state, [type, payload, call], index) => {
    const place = { position: index + 1, ts: index, seq: index, origin: "live", session_id: "s" } as const;
    const ids = { run_id: "r", call_id: call ?? "r", parent_id: call ? "r" : null };
    return reduce(state, { ...place, ...ids, type, payload } as Envelope);
  }, EMPTY);
}

const begun = ["run_start", { round: 1, trigger: "message", system: "office", system_version: 1 }] as const;
const task = (agent: string, prompt: string) => ({ agent, prompt, inputDocuments: [], outputDocuments: ["a.md"] });
const plan = { objWorkplan: [task("analyst", "Count"), task("writer", "Write")] };
const planned = ["state", { name: "plan", version: 1, snapshot: plan }] as const;
const call = (number: number) => ({ tool_name: "x", tool_call_id: `task-${number}-p`, kind: "agent" }) as const;

const states = (found: Session) => tasksOf(found).map(({ state }) => state);

test("before there is a plan, planning is in progress", () => {
  expect(isPlanning(session([...begun]))).toBe(true);
  expect(isPlanning(session([...begun], [...planned]))).toBe(false);
});

test("each task of the plan waits, runs, and is done or failed", () => {
  const running = session([...begun], [...planned], ["tool_start", call(1), "one"]);
  expect(states(running)).toEqual(["running", "waiting"]);
  const later = session(
    [...begun],
    [...planned],
    ["tool_start", call(1), "one"],
    ["tool_end", { ...call(1), status: "ok", duration: 2 }, "one"],
    ["tool_start", call(2), "two"],
    ["tool_end", { ...call(2), status: "error", error: { message: "no luck" }, duration: 1 }, "two"],
  );
  expect(tasksOf(later)).toMatchObject([
    { state: "done", title: "Count", agent: "analyst", seconds: 2 },
    { state: "failed", why: "no luck", writes: ["a.md"] },
  ]);
});

test("a task interrupted by a stop is not done", () => {
  const stopped = session(
    [...begun],
    [...planned],
    ["tool_start", call(1), "one"],
    ["run_end", { status: "stopped", usage: [] }],
  );
  expect(states(stopped)).toEqual(["stopped", "stopped"]);
});

test("without a plan the checklist is shown", () => {
  const todo = { id: "0", title: "Look", owner: "me", creator: "me", status: "in_progress", note: "", version: 1 };
  const checklist = { version: 1, tasks: [{ ...todo, depends_on: [] }], notices: [], lost: [], patches: {} };
  expect(states(session([...begun], ["state", { name: "checklist", version: 1, snapshot: checklist }]))).toEqual([
    "running",
  ]);
});
