import type { UseQueryResult } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

/** Asks again when there is news, and once more if there was other news while it was asked; never twice at a time. */
export function useNews({ isFetching, refetch }: UseQueryResult<unknown>, news: string): void {
  const asked = useRef(news);
  useEffect(() => {
    if (isFetching || asked.current === news) return;
    asked.current = news;
    void refetch();
  }, [isFetching, news, refetch]);
}
