// @vitest-environment happy-dom
import { act } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Disclosure } from "./Disclosure";

beforeEach(() => void vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true));
afterEach(() => void vi.unstubAllGlobals());

function shown(memory?: string) {
  const box = document.body.appendChild(document.createElement("div"));
  const root = createRoot(box);
  act(() =>
    root.render(
      <Disclosure summary="More" {...(memory === undefined ? {} : { memory })}>
        inside
      </Disclosure>,
    ),
  );
  return { details: box.querySelector("details"), leave: () => act(() => root.unmount()) };
}

test("an opened disclosure with a key is open again after remounting", () => {
  for (const [memory, later] of [
    [undefined, "More"],
    ["a thought", "Moreinside"],
  ] as const) {
    const { details, leave } = shown(memory);
    act(() => {
      details?.setAttribute("open", "");
      details?.dispatchEvent(new Event("toggle"));
    });
    expect(details?.textContent).toBe("Moreinside");
    leave();
    expect(shown(memory).details?.textContent).toBe(later);
  }
});
