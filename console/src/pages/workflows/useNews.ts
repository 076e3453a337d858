import type { UseQueryResult } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

/**
 * Asks again when there is news, and once more if there was other news while it was asked; never twice at a time.
 * When a line that was lost is `open` again, what was asked meanwhile may have failed.
 */
export function useNews({ isFetching, refetch }: UseQueryResult<unknown>, news: string, open = true): void {
  const asked = useRef<string | null>(news);
  useEffect(() => {
    if (!open) asked.current = null;
    else if (!isFetching && asked.current !== news) {
      asked.current = news;
      void refetch({ cancelRefetch: false });
    }
  }, [isFetching, news, open, refetch]);
}
