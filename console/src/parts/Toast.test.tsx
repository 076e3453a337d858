// @vitest-environment happy-dom
import { act } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { TextsProvider } from "../texts";
import { Toasts, useToast } from "./Toast";

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a note goes by itself, what went wrong only when it is closed", () => {
  let say: ReturnType<typeof useToast> = () => {};
  const Sayer = () => {
    say = useToast();
    return null;
  };
  const box = document.body.appendChild(document.createElement("div"));
  act(() =>
    createRoot(box).render(
      <TextsProvider>
        <Toasts>
          <Sayer />
        </Toasts>
      </TextsProvider>,
    ),
  );
  act(() => {
    say("Copied.");
    say("It failed.", true);
    say("It failed.", true);
  });
  expect(box.textContent).toBe("Copied.It failed.");
  act(() => void vi.advanceTimersByTime(60_000));
  expect(box.querySelector("[role=alert]")?.textContent).toBe("It failed.");
  expect(box.textContent).toBe("It failed.");
  act(() => box.querySelector("button")?.click());
  expect(box.textContent).toBe("");
});
