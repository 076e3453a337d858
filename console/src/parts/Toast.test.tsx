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

test("a note closes by itself, an error later, and a kept note when it is closed", async () => {
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
    say("Yours was lost.", "kept");
    say("It failed.", true);
    say("It failed.", true);
  });
  expect(box.textContent).toBe("Copied.Yours was lost.It failed.");
  await act(() => vi.advanceTimersByTimeAsync(8_000));
  expect([...box.querySelectorAll("[role=alert]")].map((note) => note.textContent)).toContain("It failed.");
  expect(box.textContent).toBe("Yours was lost.It failed.");
  act(() => {
    for (const text of ["One.", "Two.", "Three.", "Four.", "Yours was lost."]) say(text);
  });
  expect(box.textContent).toBe("Yours was lost.Three.Four.Yours was lost.");
  await act(() => vi.advanceTimersByTimeAsync(60_000));
  expect(box.textContent).toBe("Yours was lost.");
  act(() => box.querySelector("button")?.click());
  expect(box.textContent).toBe("");
});
