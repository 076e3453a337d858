// @vitest-environment happy-dom
import type { Live } from "@stellwerk/client";
import { act, createElement } from "react";
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import { useLine } from "./line";

test("a line that is lost is lost until it is open again", () => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  const root = createRoot(document.createElement("div"));
  const shown: string[] = [];
  const Shown = ({ connection }: { connection: Live["connection"] }) => {
    const line = useLine(connection);
    if (line !== shown.at(-1)) shown.push(line);
    return null;
  };
  const told = ["connecting", "open", "waiting", "connecting", "waiting", "connecting", "open", "closed"] as const;
  for (const connection of told) act(() => root.render(createElement(Shown, { connection })));
  expect(shown).toEqual(["connecting", "open", "waiting", "open", "closed"]);
});
