import type { WorkflowHead } from "@stellwerk/client";
import { useQuery } from "@tanstack/react-query";
import { useTexts } from "../../texts";
import { ProgressBar } from "./ProgressBar";
import { logs, percentOf } from "./reading";
import { useNews } from "./useNews";

/** Of one that is over nothing need be asked; of the others, what has come since the list has told that something did. */
export function RowProgress({ workflow }: { workflow: WorkflowHead }) {
  return workflow.status === "running" ? <Running workflow={workflow} /> : null;
}

function Running({ workflow: { id, name, lastActivity } }: { workflow: WorkflowHead }) {
  const { workflows: words } = useTexts();
  const query = useQuery(logs(id));
  useNews(query, lastActivity);
  return <ProgressBar label={words.progressOf(name)} percent={percentOf(query.data ?? [])} className="w-28" />;
}
