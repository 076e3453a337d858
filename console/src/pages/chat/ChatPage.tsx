import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Badge } from "../../parts/Badge";
import { buttonLook } from "../../parts/Button";
import { EmptyState } from "../../parts/EmptyState";
import { ErrorNote } from "../../parts/ErrorNote";
import { Icon } from "../../parts/Icon";
import { Loaded } from "../../parts/Loaded";
import { NotAllowed } from "../../parts/NotAllowed";
import { Page } from "../../parts/Page";
import { systems } from "../../server/queries";
import type { ListedSystem } from "../../server/types";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { useStartSession } from "./startSession";

export { SessionPage } from "./SessionPage";

export function ChatPage() {
  const { chat } = useTexts();
  const query = useQuery(systems);
  const begin = useStartSession();
  if (!useScope("run"))
    return (
      <EmptyState icon="chat" title={chat.onlyRead} isPage>
        <NotAllowed scope="run" />
      </EmptyState>
    );
  return (
    <Page title={chat.title} lead={chat.lead}>
      {begin.error && (
        <div className="mb-4">
          <ErrorNote error={begin.error} />
        </div>
      )}
      <Loaded query={query}>{(found) => <Choices systems={found} onChoose={begin.mutate} />}</Loaded>
    </Page>
  );
}

function Choices({ systems: found, onChoose }: { systems: readonly ListedSystem[]; onChoose: (id: string) => void }) {
  const { chat } = useTexts();
  const mayRegister = useScope("register");
  if (!found.length)
    return (
      <EmptyState icon="systems" title={chat.noSystems}>
        {mayRegister && (
          <Link to="/register" className={buttonLook("primary")}>
            {chat.register}
          </Link>
        )}
      </EmptyState>
    );
  return (
    <ul className="grid grid-cols-1 gap-3 sm:grid-cols-2 xl:grid-cols-3">
      {found.map(({ id, version, description, unusable }) => (
        <li key={id} className="flex">
          {unusable !== undefined ? (
            <Unusable id={id} reason={unusable} />
          ) : (
            <button
              type="button"
              onClick={() => onChoose(id)}
              className="flex w-full items-start gap-4 rounded-xl border border-line bg-surface p-4 text-left shadow-card transition-colors hover:border-accent"
            >
              <span className="grid size-10 shrink-0 place-items-center rounded-xl bg-accent-soft text-accent">
                <Icon name="chat" size={20} />
              </span>
              <span className="min-w-0">
                <span className="block truncate font-medium">
                  <span className="sr-only">{chat.startWith} </span>
                  {id}
                </span>
                <span className="line-clamp-4 text-sm text-muted">{description || chat.version(version)}</span>
              </span>
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

/** A system whose graph cannot be loaded: the reason, and the way to its page. */
function Unusable({ id, reason }: { id: string; reason: string }) {
  const { chat } = useTexts();
  return (
    <Link
      to="/systems/$id"
      params={{ id }}
      className="flex w-full items-start gap-4 rounded-xl border border-line bg-canvas p-4 transition-colors hover:border-accent"
    >
      <span className="grid size-10 shrink-0 place-items-center rounded-xl bg-bad-soft text-bad">
        <Icon name="alert" size={20} />
      </span>
      <span className="min-w-0 flex-1">
        <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className="truncate font-medium">{id}</span>
          <Badge tone="bad">{chat.unusable}</Badge>
        </span>
        <span className="line-clamp-6 text-sm break-words whitespace-pre-line text-muted">{reason}</span>
      </span>
    </Link>
  );
}
