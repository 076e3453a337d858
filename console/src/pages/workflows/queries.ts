import type { WorkflowLog, WorkflowMessage } from "@stellwerk/client";
import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { client } from "../../server/client";

/** The known items plus all that follow the last one; each is sent once. */
async function longer<Item extends { readonly id: string }>(
  queries: QueryClient,
  key: readonly string[],
  behind: (id?: string) => Promise<readonly Item[]>,
): Promise<readonly Item[]> {
  const known = queries.getQueryData<readonly Item[]>(key) ?? [];
  const news = await behind(known.at(-1)?.id);
  return news.length ? [...known, ...news] : known;
}

export const logs = (id: string) =>
  queryOptions({
    queryKey: ["workflow", id, "logs"],
    queryFn: ({ client: queries, queryKey }): Promise<readonly WorkflowLog[]> =>
      longer(queries, queryKey, (after) => client.workflows.logs(id, after)),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const messages = (id: string) =>
  queryOptions({
    queryKey: ["workflow", id, "messages"],
    queryFn: ({ client: queries, queryKey }): Promise<readonly WorkflowMessage[]> =>
      longer(queries, queryKey, (after) => client.workflows.messages(id, after)),
    staleTime: Number.POSITIVE_INFINITY,
  });

/** Progress: the last percentage in the log. */
export function percentOf(entries: readonly WorkflowLog[]): number | null {
  return entries.findLast(({ progress }) => progress !== null)?.progress ?? null;
}
