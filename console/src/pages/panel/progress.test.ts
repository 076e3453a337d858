import { EMPTY, type Envelope, reduce, type Session } from "@stellwerk/client";
import { expect, test } from "vitest";
import { shownProgress } from "./progress";

const tasks = ["completed", "pending"].map((status, place) => ({
  ...{ id: `${place}`, title: "Look", owner: "me", creator: "me", status, note: "", version: 1, depends_on: [] },
}));
const begun = (round: number) => ({ type: "run_start", payload: { round, trigger: "message", system: "demo" } });
const listed = {
  type: "state",
  payload: { name: "checklist", version: 1, snapshot: { version: 1, tasks, notices: [], lost: [], patches: {} } },
};
const ended = { type: "run_end", payload: { status: "completed", usage: [] } };
const logged = { type: "log", payload: { message: "Half of it", progress: 50 } };

const session = (...events: object[]): Session =>
  events.reduce<Session>((state, one, index) => {
    const run_id = `${events.slice(0, index + 1).filter((before) => "type" in before && before.type === "run_start").length}`;
    const place = { position: index + 1, ts: index, call_id: run_id, run_id, trace_id: run_id, parent_id: null };
    return reduce(state, { ...place, ...one } as Envelope);
  }, EMPTY);

test("progress is that of the current round", () => {
  expect(shownProgress(session(begun(1), listed))).toEqual({ percent: 50, message: null, tasks: [1, 2] });
  expect(shownProgress(session(begun(1), logged))).toEqual({ percent: 50, message: "Half of it", tasks: null });
});

test("progress ends with its round, and another round does not restore it", () => {
  expect(shownProgress(session(begun(1), listed, ended))).toBeNull();
  expect(shownProgress(session(begun(1), listed, ended, begun(2)))).toBeNull();
  expect(shownProgress(session(begun(1), listed, ended, begun(2), logged))?.tasks).toBeNull();
});
