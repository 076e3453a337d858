import { Problem } from "@stellwerk/client";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Badge } from "../../parts/Badge";
import { Button } from "../../parts/Button";
import { Card } from "../../parts/Card";
import { ErrorNote } from "../../parts/ErrorNote";
import { useToast } from "../../parts/Toast";
import { useAction } from "../../server/action";
import { registerSystem } from "../../server/queries";
import { useWritten } from "../../state/draft";
import { useTexts } from "../../texts";
import { useStartSession } from "../chat/startSession";
import { CodeEditor, type GoesTo } from "./CodeEditor";
import { MistakeList } from "./MistakeList";
import { SystemPicture } from "./SystemPicture";
import { useCheck, type Verdict } from "./useCheck";

interface Props {
  /** The key under which unregistered changes are kept for the tab. */
  name: string;
  initial: string;
  fresh?: boolean;
}

/** An editor for an agent system: checked by the server while typing, registered, tried. */
export function SystemEditor({ name, initial, fresh = false }: Props) {
  const { systems: words } = useTexts();
  const { text, setText, kept, keep } = useText(name, initial, fresh);
  const verdict = useCheck(text);
  const editor = useRef<GoesTo>(null);
  const register = useRegister(keep);
  const begin = useStartSession();
  const ready = verdict.system !== null && !verdict.checking;
  const tryIt = async () => {
    const { id } = text === kept && verdict.system ? verdict.system : await register.mutateAsync(text);
    begin.mutate(id);
  };
  const failed = register.error ?? begin.error;
  return (
    <div className="space-y-5">
      <Card
        flush
        title={<State verdict={verdict} changed={text !== kept} />}
        actions={
          <span className="flex gap-2">
            <Button disabled={!ready || begin.isPending || register.isPending} onClick={() => tryIt().catch(() => {})}>
              {words.tryIt}
            </Button>
            <Button
              look="primary"
              title={words.storeKeys}
              disabled={!ready || text === kept || register.isPending}
              onClick={() => register.mutate(text)}
            >
              {words.store}
            </Button>
          </span>
        }
      >
        <CodeEditor
          ref={editor}
          label={words.editor}
          value={text}
          onChange={setText}
          marked={new Set(verdict.mistakes.flatMap(({ line }) => (line === null ? [] : [line])))}
          onSave={() => text !== kept && !register.isPending && register.mutate(text)}
        />
      </Card>
      {failed && !(failed instanceof Problem && failed.problems?.length) && <ErrorNote error={failed} />}
      {verdict.error !== null && <ErrorNote error={verdict.error} />}
      <Findings verdict={verdict} onGo={(line) => editor.current?.goTo(line)} />
    </div>
  );
}

/** The text and its registered version; kept across navigation. */
function useText(name: string, initial: string, fresh: boolean) {
  const [written, setWritten] = useWritten(name);
  const [registered, setRegistered] = useState<string | null>(null);
  const kept = fresh ? registered : initial;
  const text = written ?? kept ?? initial;
  const current = useRef(text);
  current.current = text;
  const keep = (stored: string) => {
    setRegistered(stored);
    if (current.current === stored) setWritten(null);
  };
  return { text, setText: setWritten, kept, keep };
}

function State({ verdict, changed }: { verdict: Verdict; changed: boolean }) {
  const { systems: words } = useTexts();
  return (
    <span role="status" className="flex flex-wrap gap-2">
      {verdict.checking ? (
        <Badge>{words.checking}</Badge>
      ) : verdict.mistakes.length ? (
        <Badge tone="bad">{words.wrong(verdict.mistakes.length)}</Badge>
      ) : (
        verdict.system && <Badge tone="good">{words.fine}</Badge>
      )}
      {changed && <Badge tone="warn">{words.unsaved}</Badge>}
    </span>
  );
}

function Findings({ verdict, onGo }: { verdict: Verdict; onGo: (line: number) => void }) {
  const { systems: words } = useTexts();
  const { mistakes, system } = verdict;
  return (
    <>
      {mistakes.length > 0 && <MistakeList title={words.wrong(mistakes.length)} mistakes={mistakes} onGo={onGo} />}
      {system && system.warnings.length > 0 && (
        <MistakeList title={words.warnings} tone="warn" mistakes={system.warnings} onGo={onGo} />
      )}
      {system && (
        <Card title={words.preview}>
          <SystemPicture system={system} />
        </Card>
      )}
    </>
  );
}

function useRegister(onKept: (text: string) => void) {
  const { systems: words } = useTexts();
  const say = useToast();
  const queries = useQueryClient();
  return useAction({
    mutationFn: registerSystem,
    onSuccess: async ({ id, version }, text) => {
      queries.setQueryData(["system-text", id], text);
      onKept(text);
      await queries.invalidateQueries({
        predicate: ({ queryKey }) => ["systems", "system"].includes(String(queryKey[0])),
      });
      say(words.stored(id, version));
    },
  });
}
