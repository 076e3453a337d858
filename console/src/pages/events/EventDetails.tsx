import type { Envelope } from "@stellwerk/client";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Button, buttonLook } from "../../parts/Button";
import { Card } from "../../parts/Card";
import { useCopy } from "../../parts/copy";
import { Icon } from "../../parts/Icon";
import { JsonTree } from "../../parts/JsonTree";
import { useTexts } from "../../texts";
import { type EventSearch, rowOf } from "./filter";
import type { Shown } from "./store";

interface Props {
  sid: string;
  at: number;
  shown: Shown;
  rows: readonly Envelope[];
  profile: "user" | "debug";
  onClear: () => void;
  onChange: (search: EventSearch) => void;
}

/** The selected event in full. */
export function EventDetails({ sid, at, shown, rows, profile, onClear, onChange }: Props) {
  const { events: words, parts } = useTexts();
  const found = rowOf(shown.envelopes, at);
  const envelope = found.there ? shown.envelopes[found.row] : undefined;
  const title = (
    <span className="flex items-center gap-2">
      {parts.event(at)} {envelope && <code className="text-xs font-normal text-accent-strong">{envelope.type}</code>}
    </span>
  );
  return (
    <Card
      flush
      title={title}
      actions={<Actions sid={sid} at={at} envelope={envelope} onClose={() => onChange({ at: undefined })} />}
      className="min-w-0 shrink-0 max-lg:h-1/2 max-lg:overflow-y-auto lg:mt-9 lg:w-[26rem] lg:overflow-y-auto"
    >
      {!envelope && shown.state === "live" && (
        <Note text={profile === "user" ? words.hidden : words.missing}>
          {profile === "user" && <Button onClick={() => onChange({ profile: "debug" })}>{words.profiles.debug}</Button>}
        </Note>
      )}
      {envelope && !rowOf(rows, at).there && (
        <Note text={words.filtered}>
          <Button onClick={onClear}>{words.clear}</Button>
        </Note>
      )}
      {envelope && (
        <section aria-label={parts.event(at)} className="p-4 max-sm:p-2">
          <JsonTree key={at} value={envelope} depth={3} />
        </section>
      )}
    </Card>
  );
}

interface ActionsProps {
  sid: string;
  at: number;
  envelope: Envelope | undefined;
  onClose: () => void;
}

function Actions({ sid, at, envelope, onClose }: ActionsProps) {
  const { events: words, parts } = useTexts();
  const copy = useCopy();
  return (
    <div className="flex gap-1">
      <Link to="/chat/$sid" params={{ sid }} search={{ at }} title={words.replayWhy} className={buttonLook("quiet")}>
        <Icon name="replay" /> <span className="max-sm:sr-only">{words.replayHere}</span>
      </Link>
      {envelope && (
        <Button
          look="quiet"
          square
          aria-label={words.copyJson}
          title={words.copyJson}
          onClick={() => copy(JSON.stringify(envelope, null, 2))}
        >
          <Icon name="copy" />
        </Button>
      )}
      <Button look="quiet" square aria-label={parts.close} onClick={onClose}>
        <Icon name="close" />
      </Button>
    </div>
  );
}

function Note({ text, children }: { text: string; children: ReactNode }) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line bg-warn-soft px-4 py-2 text-sm text-warn">
      <p>{text}</p>
      {children}
    </div>
  );
}
