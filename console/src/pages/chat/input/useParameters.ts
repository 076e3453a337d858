import type { RunParameters, Session } from "@stellwerk/client";
import { useMemo, useState } from "react";
import { restored, type Typed, typedFor } from "../../../parts/form/formValues";
import type { FormField } from "../../../parts/form/schema";
import { NOT_REFUSED, type Refused, useFormValue } from "../../../parts/form/useForm";
import { type FormDraft, useFormDraft } from "../../../state/draft";
import { PARTS, type Part, parametersOf, type Wanted } from "./wanted";

/** The form of one part of a message. */
export interface PartForm {
  readonly part: Part;
  readonly field: FormField;
  readonly typed: Typed;
  readonly setTyped: (typed: Typed) => void;
  readonly errors: Readonly<Record<string, string>>;
}

const NOTHING: FormField = { name: "", label: "", isNeeded: false, shape: { kind: "object", fields: [] } };

/**
 * The forms for the parameters of a session's next message. They keep what was sent last; in another tab they begin with
 * the values of the last message in the log.
 */
export function useParameters(sid: string, session: Session, wanted: Wanted) {
  const [kept, setKept] = useFormDraft(sid);
  const [isTried, setTried] = useState(false);
  const [refused, setRefused] = useState<Refused>(NOT_REFUSED);
  const last = useMemo(() => lastIn(session), [session]);
  const typed = useMemo(() => contentOf(wanted, kept, last), [wanted, kept, last]);
  const values = {
    input: useFormValue(wanted.forms.input ?? NOTHING, typed.input, refused, "input"),
    context: useFormValue(wanted.forms.context ?? NOTHING, typed.context, refused, "context"),
    config: useFormValue(wanted.forms.config ?? NOTHING, typed.config, refused, "config"),
  };
  const isFirst = session.runs.length === 0;
  const wrong = (part: Part) =>
    Object.keys(values[part].objections).filter(
      (path) => (part === "input" && isFirst) || !isMissing(path, values[part].objections),
    );
  const forms = PARTS.flatMap((part): PartForm[] => {
    const field = wanted.forms[part];
    if (field === undefined) return [];
    const { own, theirs } = values[part];
    const shown = Object.fromEntries(wrong(part).map((path) => [path, own[path] ?? ""]));
    const set = (content: Typed) => setKept({ typed: { ...typed, [part]: content } });
    return [{ part, field, typed: typed[part], setTyped: set, errors: isTried ? { ...theirs, ...shown } : theirs }];
  });
  const said = { input: values.input.value, context: values.context.value, config: values.config.value };
  const known = Object.fromEntries(PARTS.filter((part) => wanted.forms[part]).map((part) => [part, said[part]]));
  return {
    forms,
    parameters: parametersOf(known, wanted.takesText),
    isComplete: PARTS.every((part) => wrong(part).length === 0),
    isWrongIn: (parts: readonly Part[]) => parts.some((part) => wrong(part).length > 0),
    /** Shows what is missing. */
    complain: () => setTried(true),
    /** Shows the server's error at its field. */
    refuse: setRefused,
    /** After sending. */
    settle: () => {
      setTried(false);
      setRefused(NOT_REFUSED);
      if (forms.length) setKept({ typed });
    },
    clear: () => {
      setTried(false);
      setRefused(NOT_REFUSED);
      setKept({ given: NONE });
    },
  };
}

export type ParameterForms = ReturnType<typeof useParameters>;

/** A key may be missing: the state has it from an earlier message, or the session has a value. The server knows. */
const isMissing = (path: string, objections: Readonly<Record<string, string>>): boolean =>
  !path.includes(".") && objections[path] === "needed";

const NONE: RunParameters = {};

/** The parameters that were sent last, here or elsewhere. */
function lastIn({ entries }: Session): RunParameters {
  const said = entries.findLast((entry) => entry.kind === "message" && entry.parameters !== undefined);
  return (said?.kind === "message" && said.parameters) || NONE;
}

type Contents = Readonly<Record<Part, Typed>>;

function contentOf(wanted: Wanted, kept: FormDraft | null, last: RunParameters): Contents {
  const given = kept === null ? last : "given" in kept ? kept.given : undefined;
  const content = (part: Part): Typed => {
    const field = wanted.forms[part] ?? NOTHING;
    return given
      ? typedFor(field, given[part])
      : restored(field, kept && "typed" in kept ? kept.typed[part] : undefined);
  };
  return { input: content("input"), context: content("context"), config: content("config") };
}
