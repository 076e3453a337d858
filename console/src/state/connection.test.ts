// @vitest-environment happy-dom
import type { Live } from "@stellwerk/client";
import { act, createElement } from "react";
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import { useConnection } from "./connection";

test("a lost connection stays lost until it is open again", () => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  const root = createRoot(document.createElement("div"));
  const shown: string[] = [];
  const Shown = ({ connection }: { connection: Live["connection"] }) => {
    const line = useConnection(connection);
    if (line !== shown.at(-1)) shown.push(line);
    return null;
  };
  const states = ["connecting", "open", "waiting", "connecting", "waiting", "connecting", "open", "closed"] as const;
  for (const connection of states) act(() => root.render(createElement(Shown, { connection })));
  expect(shown).toEqual(["connecting", "open", "waiting", "open", "closed"]);
});
