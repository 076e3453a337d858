import { useTexts } from "../texts";

/** Why something is not offered that others are. */
export function MayNot({ scope }: { scope: "run" | "register" }) {
  const { parts } = useTexts();
  return <p className="text-sm text-muted">{parts.mayNot[scope]}</p>;
}
