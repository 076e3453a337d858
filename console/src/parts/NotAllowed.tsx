import { useTexts } from "../texts";

/** Explains why an action is not available to this key. */
export function NotAllowed({ scope }: { scope: "run" | "register" }) {
  const { parts } = useTexts();
  return <p className="text-sm text-muted">{parts.mayNot[scope]}</p>;
}
