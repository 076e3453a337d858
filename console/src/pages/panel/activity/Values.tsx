import { JsonTree } from "../../../parts/JsonTree";

/** The entries of an object, without brackets. */
export function Values({ of, depth = 1 }: { of: object; depth?: number }) {
  return Object.entries(of).map(([name, value]) => <JsonTree key={name} name={name} value={value} depth={depth} />);
}
