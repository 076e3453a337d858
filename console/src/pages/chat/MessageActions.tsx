import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Button } from "../../parts/Button";
import { useCopy } from "../../parts/copy";
import { errorText } from "../../parts/ErrorNote";
import { EventLink } from "../../parts/EventLink";
import { Icon, type IconName } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { useAction } from "../../server/action";
import { forkSession } from "../../server/conversation";
import { sessions } from "../../server/queries";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import type { MessageItem } from "./items";
import { useRegenerate } from "./regenerate";

/** Actions on a message: copy, regenerate, continue in a new session, show in the log. */
export function MessageActions({ sid, item, text }: { sid: string; item: MessageItem; text: string }) {
  const texts = useTexts();
  const { chat } = texts;
  const say = useToast();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const again = useRegenerate(sid);
  const fork = useAction({
    mutationFn: (position: number) => forkSession(sid, position),
    onSuccess: async ({ id }) => {
      void queries.invalidateQueries(sessions);
      await navigate({ to: "/chat/$sid", params: { sid: id } });
    },
    onError: (error) => say(errorText(error, texts), true),
  });
  const copy = useCopy();
  const mayWrite = useScope("run");
  const forkAt = mayWrite ? item.forkAt : undefined;
  return (
    <div className="mt-1 -ml-1.5 flex shrink-0 opacity-0 transition-opacity group-focus-within:opacity-100 group-hover:opacity-100 pointer-coarse:opacity-100">
      <Action icon="copy" label={chat.copy} onClick={() => void copy(text)} />
      {item.isLast && mayWrite && (
        <Action icon="again" label={chat.again} disabled={again.isPending} onClick={again.run} />
      )}
      {forkAt !== undefined && (
        <Action icon="fork" label={chat.fork} disabled={fork.isPending} onClick={() => fork.mutate(forkAt)} />
      )}
      <EventLink sid={sid} position={item.entry.position} />
    </div>
  );
}

interface ActionProps {
  icon: IconName;
  label: string;
  onClick: () => void;
  disabled?: boolean;
}

function Action({ icon, label, ...button }: ActionProps) {
  return (
    <Button look="quiet" square className="size-7 w-7" aria-label={label} title={label} {...button}>
      <Icon name={icon} size={15} />
    </Button>
  );
}
