import { JsonTree } from "../../../parts/JsonTree";

/** What is in an object, without the brackets around it. */
export function Values({ of, depth = 1 }: { of: object; depth?: number }) {
  return Object.entries(of).map(([name, value]) => <JsonTree key={name} name={name} value={value} depth={depth} />);
}
