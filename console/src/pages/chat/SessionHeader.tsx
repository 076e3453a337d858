import type { Session } from "@stellwerk/client";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Badge } from "../../parts/Badge";
import { Button, buttonLook } from "../../parts/Button";
import { classes } from "../../parts/classes";
import { Dialog } from "../../parts/Dialog";
import { errorText } from "../../parts/ErrorNote";
import { Icon } from "../../parts/Icon";
import { StatusBadge } from "../../parts/StatusBadge";
import { useToast } from "../../parts/Toast";
import { useAction } from "../../server/action";
import { deleteSession } from "../../server/conversation";
import { sessions } from "../../server/queries";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";

interface Props {
  sid: string;
  system: string;
  /** The beginning of its first message. */
  title: string | null;
  session: Session;
  /** All stored events have arrived. */
  isKnown: boolean;
  /** The connection is lost and being retried. */
  isLost: boolean;
  onPanel: () => void;
}

export function SessionHeader({ sid, system, title: said, session, isKnown, isLost, onPanel }: Props) {
  const { chat } = useTexts();
  const mayRemove = useScope("run");
  const [isRemoving, setRemoving] = useState(false);
  const title = said ?? chat.session(system);
  useEffect(() => {
    document.title = `${title} · Stellwerk`;
  }, [title]);
  return (
    <header className="flex min-h-13 shrink-0 items-center gap-x-3 border-b border-line px-4 py-1.5 sm:px-6 low:min-h-10 low:py-0">
      <h1 className="min-w-0 truncate font-semibold tracking-tight" title={title}>
        {title}
      </h1>
      {said && <span className="shrink-0 text-sm text-muted max-sm:hidden">{system}</span>}
      {isKnown && <StatusBadge status={session.status} awaiting={session.awaitingUserInput} />}
      <span role="status" className="min-w-0 truncate">
        {isLost && <Badge tone="warn">{chat.reconnecting}</Badge>}
      </span>
      <div className="ml-auto flex shrink-0 gap-1">
        <Button
          look="quiet"
          square
          className="xl:hidden"
          aria-label={chat.details}
          title={chat.details}
          onClick={onPanel}
        >
          <Icon name="panel" />
        </Button>
        <Link to="/events/$sid" params={{ sid }} className={classes(buttonLook("quiet"), "max-sm:hidden")}>
          <Icon name="events" /> {chat.events}
        </Link>
        {mayRemove && (
          <Button look="quiet" square aria-label={chat.remove} title={chat.remove} onClick={() => setRemoving(true)}>
            <Icon name="trash" />
          </Button>
        )}
      </div>
      <Removal sid={sid} isOpen={isRemoving} onClose={() => setRemoving(false)} />
    </header>
  );
}

function Removal({ sid, isOpen, onClose }: { sid: string; isOpen: boolean; onClose: () => void }) {
  const texts = useTexts();
  const { chat } = texts;
  const say = useToast();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const removal = useAction({
    mutationFn: () => deleteSession(sid),
    onSuccess: async () => {
      say(chat.removed);
      await navigate({ to: "/" });
      void queries.invalidateQueries(sessions);
    },
    onError: (error) => say(errorText(error, texts), true),
  });
  return (
    <Dialog open={isOpen} onClose={onClose} title={chat.removeTitle}>
      <p className="mb-5 text-muted">{chat.removeWhy}</p>
      <div className="flex justify-end gap-2">
        <Button data-autofocus onClick={onClose}>
          {chat.removeNo}
        </Button>
        <Button look="danger" disabled={removal.isPending} onClick={() => removal.mutate()}>
          {chat.removeYes}
        </Button>
      </div>
    </Dialog>
  );
}
