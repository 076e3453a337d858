import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useAction } from "../../server/action";
import { beginSession, session, sessions, system } from "../../server/queries";

/** Starts a session with a system and opens it. */
export function useStartSession() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useAction({
    mutationFn: beginSession,
    // The page of the session begins with the right input box.
    onMutate: (id) => void queries.prefetchQuery(system(id)),
    onSuccess: async (begun) => {
      const { id } = begun;
      queries.setQueryData(session(id).queryKey, begun);
      void queries.invalidateQueries(sessions);
      await navigate({ to: "/chat/$sid", params: { sid: id } });
    },
  });
}
