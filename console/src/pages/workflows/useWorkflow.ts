import type { Session } from "@stellwerk/client";
import { useSession } from "@stellwerk/client/react";
import { useQuery } from "@tanstack/react-query";
import { useClient } from "../../state/client";
import { useConnection } from "../../state/connection";
import { logs, messages } from "./queries";
import { useRefetch } from "./useRefetch";

/**
 * A live workflow. Its stream has the plan, tasks and questions; messages and log entries are fetched after the last
 * known id when the stream reports new ones.
 */
export function useWorkflow(id: string) {
  const { session, connection: tried, problem } = useSession(useClient(), id);
  const connection = useConnection(tried);
  const said = useQuery(messages(id));
  const log = useQuery(logs(id));
  const news = newsOf(session);
  const isOpen = connection !== "waiting";
  useRefetch(said, news, isOpen);
  useRefetch(log, news, isOpen);
  return { session, connection, error: said.error ?? log.error ?? problem, messages: said.data, logs: log.data };
}

/** Changes whenever there may be a new message or log entry, but not with every token. */
function newsOf({ status, awaitingUserInput, runs, entries, logs: lines, problems, questions }: Session): string {
  const counts = [runs.length, runs.at(-1)?.attempt, entries.length, lines.length, problems.length, questions.length];
  return [status, awaitingUserInput, ...counts].join(" ");
}
