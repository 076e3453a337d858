import { type UseMutationOptions, type UseMutationResult, useMutation } from "@tanstack/react-query";
import { useRef } from "react";

/**
 * Something that is done to the server, and never twice at a time: of two fast clicks, the second comes before the first
 * is drawn, and is that one.
 */
export function useAction<T, V = void>(options: UseMutationOptions<T, Error, V>): Action<T, V> {
  const { mutateAsync, ...rest } = useMutation(options);
  const underWay = useRef<Promise<T>>(undefined);
  const run = (wish: V) => {
    underWay.current ??= mutateAsync(wish).finally(() => {
      underWay.current = undefined;
    });
    return underWay.current;
  };
  return {
    ...rest,
    mutate: (wish) => void run(wish).catch(() => {}), // what went wrong is in `error`
    mutateAsync: run,
  };
}

interface Action<T, V> extends Pick<UseMutationResult<T, Error, V>, "error" | "isPending"> {
  mutate: (wish: V) => void;
  mutateAsync: (wish: V) => Promise<T>;
}
