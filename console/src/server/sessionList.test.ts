// @vitest-environment happy-dom
import { QueryObserver } from "@tanstack/react-query";
import { afterEach, expect, test, vi } from "vitest";
import { makeQueryClient, sessions } from "./queries";
import { showList } from "./sessionList";
import type { Session } from "./types";

afterEach(() => vi.unstubAllGlobals());

const listOf = (...ids: string[]) => ids.map((id) => ({ id }) as Session);

test("an older answer that arrives later does not replace a newer list", async () => {
  const answers: ((list: Session[]) => void)[] = [];
  const answer = () => new Promise<Response>((send) => answers.push((list) => send(Response.json({ sessions: list }))));
  vi.stubGlobal("fetch", vi.fn(answer));
  const queries = makeQueryClient();
  const leave = new QueryObserver(queries, sessions).subscribe(() => {});
  await vi.waitFor(() => expect(answers).toHaveLength(1));
  const shown = showList(queries, listOf("new", "old"));
  answers[0]?.(listOf("old"));
  await shown;
  await new Promise((later) => setTimeout(later));
  expect(queries.getQueryData(sessions.queryKey)).toEqual(listOf("new", "old"));
  leave();
});
