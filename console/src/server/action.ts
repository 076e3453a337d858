import { type UseMutationOptions, type UseMutationResult, useMutation } from "@tanstack/react-query";
import { useRef } from "react";

/**
 * A mutation that never runs twice at a time: the second of two fast clicks, which arrives before the next render, joins
 * the first.
 */
export function useAction<T, V = void>(options: UseMutationOptions<T, Error, V>): Action<T, V> {
  const { mutateAsync, ...rest } = useMutation(options);
  const underWay = useRef<Promise<T>>(undefined);
  const run = (input: V) => {
    underWay.current ??= mutateAsync(input).finally(() => {
      underWay.current = undefined;
    });
    return underWay.current;
  };
  return {
    ...rest,
    mutate: (input) => void run(input).catch(() => {}), // errors are in `error`
    mutateAsync: run,
  };
}

interface Action<T, V> extends Pick<UseMutationResult<T, Error, V>, "error" | "isPending"> {
  mutate: (input: V) => void;
  mutateAsync: (input: V) => Promise<T>;
}
