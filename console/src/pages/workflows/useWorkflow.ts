import type { Session } from "@stellwerk/client";
import { useSession } from "@stellwerk/client/react";
import { useQuery } from "@tanstack/react-query";
import { useClient } from "../../state/client";
import { useLine } from "../../state/line";
import { logs, messages } from "./reading";
import { useNews } from "./useNews";

/**
 * A workflow as it goes on. Its stream tells plan, tasks and questions; messages and log entries are asked for by the
 * id of the last one that is known, when the stream says that there are new ones.
 */
export function useWorkflow(id: string) {
  const { session, connection: tried, problem } = useSession(useClient(), id);
  const connection = useLine(tried);
  const said = useQuery(messages(id));
  const log = useQuery(logs(id));
  const news = newsOf(session);
  const isOpen = connection !== "waiting";
  useNews(said, news, isOpen);
  useNews(log, news, isOpen);
  return { session, connection, error: said.error ?? log.error ?? problem, messages: said.data, logs: log.data };
}

/** Changes whenever a message or a log entry may have come, and not with every word that a model writes. */
function newsOf({ status, awaitingUserInput, runs, entries, logs: lines, problems, questions }: Session): string {
  const counts = [runs.length, runs.at(-1)?.attempt, entries.length, lines.length, problems.length, questions.length];
  return [status, awaitingUserInput, ...counts].join(" ");
}
