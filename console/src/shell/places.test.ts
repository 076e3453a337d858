import { expect, test } from "vitest";
import { placeOf } from "./places";

test.each([
  ["/", "chat"],
  ["/chat/abc", "chat"],
  ["/systems/demo", "systems"],
  ["/register", "systems"],
  ["/events/abc", "events"],
  ["/nowhere", undefined],
])("%s belongs to %s", (path, name) => {
  expect(placeOf(path)?.name).toBe(name);
});
