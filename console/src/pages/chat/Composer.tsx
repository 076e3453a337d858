import type { Session } from "@stellwerk/client";
import { type KeyboardEvent, useEffect, useRef } from "react";
import { Button } from "../../parts/Button";
import { classes } from "../../parts/classes";
import { Icon } from "../../parts/Icon";
import { type Draft, useDraft } from "../../state/draft";
import { useWaitingText } from "../../state/uploads";
import { useTexts } from "../../texts";
import type { Texts } from "../../texts/types";
import { Attachments } from "./Attachments";
import { type Asked, answerTargetIn } from "./answerTarget";
import { useAttaching } from "./attaching";
import { InputForms, MoreButton } from "./input/InputForms";
import { useForms } from "./input/useForms";
import { StopButton, useStop } from "./StopButton";
import type { Sending } from "./sending";

interface Props {
  sid: string;
  /** The agent system, once it is known. */
  system: string | undefined;
  session: Session;
  /** In replay: nothing can be sent. */
  isPast: boolean;
  sending: Sending;
}

/** The input box. Enter sends, Shift+Enter starts a new line, Escape stops the run. A graph may have forms above it. */
export function Composer({ sid, system, session, isPast, sending }: Props) {
  const texts = useTexts();
  const { chat } = texts;
  const [draft, setDraft] = useDraft(sid);
  const box = useRef<HTMLTextAreaElement>(null);
  const form = useRef<HTMLFormElement>(null);
  const stop = useStop(sid, session);
  const isBusy = session.status === "running" && !session.awaitingUserInput;
  const asked = answerTargetIn(session);
  const forms = useForms({ sid, system, session, asked, sending, around: form });
  const { takesText } = forms.wanted;
  const { parameters } = forms.parameters;
  const attaching = useAttaching({ sid, draft, setDraft, isOpen: !isPast && takesText });
  const isUploading = attaching.uploads.length > 0;
  const isWaiting = useWaitingText(sid) === draft.text;
  const mayBeEmpty = !takesText || ("input" in parameters && !(forms.wanted.needsText && session.runs.length === 0));
  const lacks = isWaiting ? "upload" : lackOf(draft, isUploading || mayBeEmpty, asked);
  useEffect(() => toBox(box.current), []);
  const send = () => {
    if (lacks !== null || !forms.check()) return;
    const message = {
      ...(takesText ? draft : NO_TEXT),
      ...(Object.keys(parameters).length > 0 ? { parameters } : {}),
    };
    if (isUploading) sending.sendWhenThere(message);
    else {
      sending.send(message);
      if (takesText) setDraft(null);
    }
    forms.settle();
    box.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const isText = event.target === box.current;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || (isText && !event.shiftKey))) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape" && isBusy) stop.run();
  };
  if (isPast) return <p className="border-t border-line px-6 py-4 text-center text-sm text-muted">{chat.replayed}</p>;
  const placeholder = isBusy ? chat.placeholderBusy : placeholderFor(asked, texts);
  return (
    <form
      ref={form}
      noValidate
      className="px-3 pb-3 sm:px-6 sm:pb-5"
      onKeyDown={onKeyDown}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div
        className={classes(
          "mx-auto max-w-3xl rounded-2xl border bg-surface p-2 shadow-card focus-within:border-accent",
          attaching.isOver ? "border-accent bg-accent-soft" : "border-line-strong",
        )}
      >
        {!forms.isFolded && (
          <InputForms parameters={forms.parameters} shown={forms.wanted.shown} isOpen={forms.isOpen} />
        )}
        <Attachments draft={draft} attaching={attaching} onTaken={() => toBox(box.current)} />
        <textarea
          hidden={!takesText}
          ref={box}
          rows={1}
          dir="auto"
          aria-label={chat.message}
          placeholder={attaching.isOver ? chat.dropHere : placeholder}
          value={draft.text}
          maxLength={65_536}
          onChange={(event) => setDraft({ ...draft, text: event.target.value })}
          onPaste={(event) => event.clipboardData.files.length > 0 && attaching.take(event.clipboardData.files)}
          className="field-sizing-content block max-h-60 min-h-9 w-full resize-none bg-transparent px-2 py-1.5 outline-none placeholder:text-muted max-md:text-base"
        />
        <div className="flex items-center gap-2">
          {takesText && <AttachButton onFiles={attaching.take} />}
          {forms.isFolded && (
            <Button onClick={forms.edit}>
              <Icon name="plus" size={16} /> {chat.newInput}
            </Button>
          )}
          {!forms.isFolded && forms.folded.length > 0 && (
            <MoreButton isOpen={forms.isOpen} onToggle={forms.toggle} count={forms.count} />
          )}
          <p role="status" className="min-w-0 flex-1 text-sm leading-tight text-muted max-sm:text-xs">
            {lacks !== null && lacks !== "text" && chat.lacks[lacks]}
          </p>
          {isBusy && <StopButton stop={stop} onStop={() => toBox(box.current)} />}
          {!forms.isFolded && (
            <Button
              type="submit"
              look="primary"
              square
              className="rounded-xl"
              disabled={lacks !== null}
              aria-label={isBusy ? chat.queue : chat.send}
              title={isBusy ? chat.queue : chat.send}
            >
              <Icon name="send" />
            </Button>
          )}
        </div>
      </div>
    </form>
  );
}

type Lack = "words" | "decision" | "which" | "text";

/** Why it cannot be sent yet. A file alone can be sent, but does not answer a question. */
function lackOf({ text, files }: Draft, mayBeEmpty: boolean, asked: Asked): Lack | null {
  const said = text.trim();
  if (said === "" && files.length === 0 && !mayBeEmpty) return "text";
  if (asked.kind === "several") return "which";
  if (asked.kind === "approval") return asked.words.includes(said) ? null : "decision";
  return said === "" && asked.kind === "question" ? "words" : null;
}

function placeholderFor(asked: Asked, { chat, language }: Texts): string {
  switch (asked.kind) {
    case "nothing":
      return chat.placeholder;
    case "question":
      return chat.placeholderAsked;
    case "several":
      return chat.placeholderSeveral;
    case "approval": {
      const words = new Intl.ListFormat(language, { type: "disjunction" }).format(asked.words);
      return words ? chat.placeholderWords(words) : chat.placeholderApproval;
    }
  }
}

const NO_TEXT = { text: "", files: [] };

/** Not on a phone, where focus would open the keyboard. */
function toBox(box: HTMLTextAreaElement | null): void {
  if (!matchMedia("(pointer: coarse)").matches) box?.focus({ preventScroll: true });
}

function AttachButton({ onFiles }: { onFiles: (files: FileList) => void }) {
  const { chat } = useTexts();
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label={chat.attach}
        onChange={(event) => {
          if (event.target.files) onFiles(event.target.files);
          event.target.value = "";
        }}
      />
      <Button look="quiet" square aria-label={chat.attach} title={chat.attach} onClick={() => input.current?.click()}>
        <Icon name="clip" />
      </Button>
    </>
  );
}
