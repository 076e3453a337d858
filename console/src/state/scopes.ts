import { useQuery } from "@tanstack/react-query";
import { me } from "../server/queries";
import type { Scope } from "../server/types";

/** Whether the current key has a scope; true until that is known. */
export function useScope(scope: Scope): boolean {
  return useQuery(me).data?.scopes.includes(scope) ?? true;
}
