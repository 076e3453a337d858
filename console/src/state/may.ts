import { useQuery } from "@tanstack/react-query";
import { me } from "../server/queries";
import type { Scope } from "../server/types";

/** Whether whoever sits here may do something; as long as nobody knows, he may try. */
export function useMay(scope: Scope): boolean {
  return useQuery(me).data?.scopes.includes(scope) ?? true;
}
