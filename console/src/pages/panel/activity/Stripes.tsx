import { classes } from "../../../parts/classes";
import { indent, LANES } from "./appearance";

/** Vertical lines next to the calls of an agent, one for each enclosing agent. */
export function Stripes({ of }: { of: string }) {
  return of.split(" ").map((stripe) => {
    const [depth, colour] = stripe.split(":").map(Number);
    if (depth === undefined || colour === undefined) return null;
    return (
      <span
        key={stripe}
        aria-hidden
        className={classes("absolute inset-y-0 w-0.5 bg-current", LANES[colour])}
        style={{ left: indent(depth) + 2 }}
      />
    );
  });
}
