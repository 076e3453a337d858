import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useAction } from "../../server/action";
import { beginSession, sessions } from "../../server/queries";

/** Starts a session with a system and opens it. */
export function useStartSession() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useAction({
    mutationFn: beginSession,
    onSuccess: async ({ id }) => {
      void queries.invalidateQueries(sessions);
      await navigate({ to: "/chat/$sid", params: { sid: id } });
    },
  });
}
