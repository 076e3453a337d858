import type { WorkflowHead } from "@stellwerk/client";
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client } from "../../server/client";

export const PAGE = 50;
const MOST_AT_ONCE = 500;
const LONGEST_NAME = 60;
const SOON = 2_000;
const LATE = 30_000;

interface Listing {
  rows: readonly WorkflowHead[];
  /** Whether there are older ones. */
  more: boolean;
  /** When anything in it last changed; milliseconds. */
  changedAt: number;
}

/** The newest workflows, without sessions started as chats. An unchanged list is a 304, handled by the browser's cache. */
export const workflows = (wanted: number) =>
  queryOptions({
    queryKey: ["workflows", wanted],
    queryFn: async ({ client: queries }): Promise<Listing> => {
      const before = queries.getQueryData<Listing>(["workflows", wanted]);
      return listing(await newest(wanted + 1), wanted, Date.now(), before);
    },
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => pause(state.data, state.fetchFailureCount, Date.now()),
  });

/** The name of a workflow: the beginning of its request, as in the server's list. */
export function nameOf(request: string): string {
  const [name, isCut] = [request.slice(0, LONGEST_NAME), request.length >= LONGEST_NAME];
  return isCut ? `${name.trimEnd()}…` : name;
}

async function newest(wanted: number): Promise<readonly WorkflowHead[]> {
  const found: WorkflowHead[] = [];
  while (found.length < wanted) {
    const limit = Math.min(MOST_AT_ONCE, wanted - found.length);
    const page = await client.workflows.list({
      limit,
      chats: false,
      ...(found.length ? { before: found.at(-1)?.id } : {}),
    });
    found.push(...page);
    if (page.length < limit) break;
  }
  return found;
}

export function listing(found: readonly WorkflowHead[], wanted: number, now: number, before?: Listing): Listing {
  const [rows, more] = [found.slice(0, wanted), found.length > wanted];
  const same = before !== undefined && JSON.stringify(before.rows) === JSON.stringify(rows) && before.more === more;
  return same ? before : { rows, more, changedAt: now };
}

/** Polls often while things happen, and less often while nothing does or the server is unreachable. */
export function pause(known: Listing | undefined, failures: number, now: number): number {
  const quiet = known ? (now - known.changedAt) / 4 : 0;
  const longest = known?.rows.some(({ status, awaitingUserInput }) => status === "running" && !awaitingUserInput)
    ? LATE / 3
    : LATE;
  return Math.min(Math.max(SOON * 2 ** failures, quiet), longest);
}
