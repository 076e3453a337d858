import type { IconName } from "../parts/Icon";

/** The main navigation, with the key that follows "g". */
export const PLACES = [
  { name: "chat", to: "/", key: "c", also: "/chat" },
  { name: "workflows", to: "/workflows", key: "w", also: "/workflows" },
  { name: "systems", to: "/systems", key: "s", also: "/register" },
  { name: "tools", to: "/tools", key: "t", also: "/tools" },
  { name: "events", to: "/events", key: "e", also: "/events" },
] as const satisfies readonly { name: IconName; to: string; key: string; also: string }[];

export type Place = (typeof PLACES)[number];

/** The entry of the navigation that a path belongs to. */
export function placeOf(path: string): Place | undefined {
  return PLACES.find(({ to, also }) => (to === "/" ? path === "/" : path.startsWith(to)) || path.startsWith(also));
}
