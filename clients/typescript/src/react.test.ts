import { Window } from "happy-dom";
import { act, createElement, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { beforeAll, expect, test, vi } from "vitest";
import { Client } from "./client.js";
import { type Live, LiveSession, useSession } from "./react.js";
import { conversation, textOf } from "./select.js";
import { run } from "./testing/golden.js";
import { type Answer, problem, serving, whole } from "./testing/server.js";

const RUN = run("one-tool");

beforeAll(() => {
  const window = new Window();
  vi.stubGlobal("window", window);
  vi.stubGlobal("document", window.document);
  vi.stubGlobal("requestAnimationFrame", window.requestAnimationFrame.bind(window));
  vi.stubGlobal("cancelAnimationFrame", window.cancelAnimationFrame.bind(window));
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
});

/** A server that counts open connections and records requests. */
async function counting(answer: Answer) {
  const lines = { open: 0, asked: [] as string[] };
  const url = await serving((request, response, wanted) => {
    lines.open += 1;
    lines.asked.push(request.url ?? "");
    response.on("close", () => {
      lines.open -= 1;
    });
    answer(request, response, wanted);
  });
  return { lines, client: new Client({ url }) };
}

function lookedAt(hidden: boolean): void {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new window.Event("visibilitychange"));
}

async function until(holds: () => boolean): Promise<void> {
  await vi.waitFor(() => expect(holds()).toBe(true), { timeout: 60_000, interval: 5 });
}

function Chat({ client, drawn }: { client: Client; drawn: Live[] }) {
  const live = useSession(client, "s");
  drawn.push(live);
  return conversation(live.session)
    .map((entry) => textOf(live.session, entry))
    .join("|");
}

test("a component shows the live session, renders once for many envelopes, and disconnects when unmounted", async () => {
  const { lines, client } = await counting(whole(RUN));
  const drawn: Live[] = [];
  const place = document.createElement("div");
  const root = createRoot(place);
  await act(async () => root.render(createElement(StrictMode, null, createElement(Chat, { client, drawn }))));
  await act(() => until(() => drawn.at(-1)?.session.position === RUN.length));
  expect(place.textContent).toBe("Go.|Let me look. |Done.");
  expect(new Set(drawn.map((live) => live.session.position)).size).toBeLessThan(RUN.length / 2);
  await act(async () => root.unmount());
  await until(() => lines.open === 0);
});

test("a hidden page disconnects and resumes at its position", async () => {
  const { lines, client } = await counting(whole(RUN.slice(0, 5)));
  const live = new LiveSession(client, "s");
  const leave = live.subscribe(() => undefined);
  await until(() => live.get().session.position === 5);
  lookedAt(true);
  expect(live.get().connection).toBe("closed");
  await until(() => lines.open === 0);
  lookedAt(false);
  await until(() => lines.open === 1 && live.get().connection === "open");
  expect(lines.asked).toEqual(["/sessions/s/stream?after=0", "/sessions/s/stream?after=5"]);
  leave();
  await until(() => lines.open === 0);
});

test("two subscribers share one connection", async () => {
  const { lines, client } = await counting(whole(RUN));
  const live = new LiveSession(client, "s");
  const leave = [live.subscribe(() => undefined), live.subscribe(() => undefined)];
  await until(() => live.get().session.position === RUN.length);
  expect(lines.asked).toHaveLength(1);
  for (const one of leave) one();
  await until(() => lines.open === 0);
});

test("components that show one session share one connection, even if each render creates a new client", async () => {
  const { lines, client } = await counting(whole(RUN));
  const drawn: Live[] = [];
  const Fresh = () => createElement(Chat, { client: new Client({ ...client.options }), drawn });
  const place = document.createElement("div");
  const root = createRoot(place);
  const chats = [1, 2, 3].map((key) => createElement(Chat, { key, client, drawn }));
  await act(async () => root.render(createElement("div", null, ...chats, createElement(Fresh))));
  await act(() => until(() => place.textContent === "Go.|Let me look. |Done.".repeat(4)));
  expect(lines.asked).toHaveLength(2);
  await act(async () => root.unmount());
  await until(() => lines.open === 0);
});

test("a lost connection has a reason until it is open again", async () => {
  const { client } = await counting(problem(503, "busy"));
  const live = new LiveSession(client, "s");
  const leave = live.subscribe(() => undefined);
  await until(() => live.get().lost !== undefined);
  expect(live.get()).toMatchObject({ connection: "waiting", lost: { code: "busy" } });
  leave();
});

test("a deleted session is reported once and not requested again", async () => {
  const { lines, client } = await counting(problem(404, "unknown_session"));
  const live = new LiveSession(client, "s");
  const leave = live.subscribe(() => undefined);
  await until(() => live.get().problem !== undefined);
  expect(live.get()).toMatchObject({ connection: "closed", problem: { status: 404, code: "unknown_session" } });
  lookedAt(true);
  lookedAt(false);
  leave();
  expect(lines.asked).toHaveLength(1);
});

test("an envelope that cannot be reduced is an error of the page, and the connection is closed", async () => {
  const heard = new Promise((resolve) => process.once("unhandledRejection", resolve));
  const broken = { ...RUN[0], type: "message", payload: null } as unknown as (typeof RUN)[number];
  const { lines, client } = await counting(whole([broken]));
  const live = new LiveSession(client, "s");
  const leave = live.subscribe(() => undefined);
  expect(await heard).toBeInstanceOf(TypeError);
  expect(live.get().connection).toBe("closed");
  leave();
  await until(() => lines.open === 0);
});
