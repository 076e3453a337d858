import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTexts } from "../texts";
import { ErrorNote } from "./ErrorNote";

/** The result of a query, a placeholder while it loads, or its error. Old data stays during a refetch. */
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  const { parts } = useTexts();
  if (query.data !== undefined) return children(query.data);
  if (query.error) return <ErrorNote error={query.error} onRetry={() => query.refetch()} />;
  return (
    <div role="status" className="space-y-3 p-1">
      <span className="sr-only">{parts.loading}</span>
      {["w-2/3", "w-full", "w-1/2"].map((width) => (
        <div key={width} className={`h-4 animate-pulse rounded bg-hover ${width}`} />
      ))}
    </div>
  );
}
