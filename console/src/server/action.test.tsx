// @vitest-environment happy-dom
import { QueryClientProvider } from "@tanstack/react-query";
import { act } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { useAction } from "./action";
import { makeQueryClient } from "./queries";

beforeEach(() => vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true));
afterEach(() => vi.unstubAllGlobals());

test("two fast clicks run the action once; a later click runs it again", async () => {
  const answers: (() => void)[] = [];
  const work = vi.fn((input: string) => new Promise<string>((answer) => answers.push(() => answer(input))));
  let action: ReturnType<typeof useAction<string, string>> | undefined;
  const Button = () => {
    action = useAction({ mutationFn: work });
    return null;
  };
  const page = (
    <QueryClientProvider client={makeQueryClient()}>
      <Button />
    </QueryClientProvider>
  );
  await act(async () => createRoot(document.createElement("div")).render(page));
  const results = await act(async () => {
    const both = [action?.mutateAsync("one"), action?.mutateAsync("two")];
    action?.mutate("three");
    await vi.waitFor(() => expect(answers).toHaveLength(1));
    answers[0]?.();
    return Promise.all(both);
  });
  expect(results).toEqual(["one", "one"]);
  await act(async () => {
    action?.mutate("four");
    await vi.waitFor(() => expect(answers).toHaveLength(2));
  });
  expect(work.mock.calls.map(([input]) => input)).toEqual(["one", "four"]);
});
