import type { UseQueryResult } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

/**
 * Refetches when something changed, and once more if it changed again meanwhile; never twice at a time.
 * Also refetches when a lost connection is `open` again, because requests may have failed meanwhile.
 */
export function useRefetch({ isFetching, refetch }: UseQueryResult<unknown>, news: string, open = true): void {
  const asked = useRef<string | null>(news);
  useEffect(() => {
    if (!open) asked.current = null;
    else if (!isFetching && asked.current !== news) {
      asked.current = news;
      void refetch({ cancelRefetch: false });
    }
  }, [isFetching, news, open, refetch]);
}
