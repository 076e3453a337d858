import { Problem, type Session } from "@stellwerk/client";
import { useQuery } from "@tanstack/react-query";
import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import { errorText } from "../../../parts/ErrorNote";
import { placeOf } from "../../../parts/form/formValues";
import { system as systemOf } from "../../../server/queries";
import type { Outgoing } from "../../../state/outbox";
import { useTexts } from "../../../texts";
import type { Asked } from "../answerTarget";
import type { Sending } from "../sending";
import { useParameters } from "./useParameters";
import { ONLY_TEXT, type Part, type Wanted, wantedBy } from "./wanted";

interface Context {
  sid: string;
  system: string | undefined;
  session: Session;
  asked: Asked;
  sending: Sending;
  /** The element around the forms. */
  around: RefObject<HTMLElement | null>;
}

/** The forms above the input box: which there are, their values, and the server's errors at their fields. */
export function useForms({ sid, system, session, asked, sending, around }: Context) {
  const all = useWanted(system);
  const wanted = asked.kind === "nothing" ? all : ONLY_TEXT; // an answer to a question is a text
  const parameters = useParameters(sid, session, wanted);
  const [isOpen, setOpen] = useState(false);
  const [isEdited, setEdited] = useState<boolean | null>(null);
  // Without a text the form would cover the answer: it is folded after the first message.
  const isFolded = !wanted.takesText && !(isEdited ?? session.runs.length === 0);
  const focus = (what: string) =>
    requestAnimationFrame(() => around.current?.querySelector<HTMLElement>(what)?.focus());
  const folded = parameters.forms.map(({ part }) => part).filter((part) => !wanted.shown.includes(part));
  useRefusal(sending, parameters.forms, (part, refused) => {
    parameters.refuse(refused);
    setEdited(true);
    setOpen(isOpen || folded.includes(part));
    focus("[aria-invalid=true]");
  });
  return {
    wanted,
    parameters,
    folded,
    isFolded,
    edit: () => {
      setEdited(true);
      focus("input, textarea, select");
    },
    /** After sending. */
    settle: () => {
      parameters.settle();
      setEdited(false);
    },
    isOpen: isOpen && folded.length > 0,
    toggle: () => setOpen(!isOpen),
    /** How many of the folded parts the next message has. */
    count: folded.filter((part) => part in parameters.parameters).length,
    /** Whether all forms are complete; if not, goes to the first error. */
    check: (): boolean => {
      if (!parameters.isComplete) {
        parameters.complain();
        setOpen(isOpen || parameters.isWrongIn(folded));
        focus("[aria-invalid=true]");
      }
      return parameters.isComplete;
    },
  };
}

/** What a message to a system may have. */
export function useWanted(system: string | undefined): Wanted {
  const { data } = useQuery({ ...systemOf(system ?? ""), enabled: system !== undefined, staleTime: 60_000 });
  return useMemo(() => wantedBy(data), [data]);
}

type Refuse = (part: Part, refused: { blamed: string; error: string }) => void;

/** Takes a message back whose rejection names a field of the forms, and shows the error there. */
function useRefusal(sending: Sending, forms: ReturnType<typeof useParameters>["forms"], refuse: Refuse): void {
  const texts = useTexts();
  const show = (message: Outgoing) => {
    const { refusal } = message;
    if (refusal?.status !== 422 || refusal.field === undefined) return;
    const [part, ...path] = refusal.field.split(".");
    const form = forms.find((one) => one.part === part);
    if (form === undefined || placeOf(form.field, path.join(".")) === null) return;
    const detail = refusal.detail.replace(`${refusal.field}: `, "");
    sending.takeBack({ ...message, parameters: undefined });
    refuse(form.part, { blamed: refusal.field, error: errorText(new Problem(422, { ...refusal, detail }), texts) });
  };
  const current = useRef(show);
  current.current = show;
  const refused = sending.waiting.find(({ refusal }) => refusal);
  useEffect(() => {
    if (refused) current.current(refused);
  }, [refused]);
}
