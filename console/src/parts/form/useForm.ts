import { useState } from "react";
import { useTexts } from "../../texts";
import { fractionMark } from "../../texts/figures";
import { initialOf, placeOf, type Typed, typedValue } from "./formValues";
import type { FormField } from "./schema";

/** The server's error, and for a 422 the path of the invalid field. */
export interface Refused {
  readonly blamed: string | null;
  readonly error: string | null;
}

export const NOT_REFUSED: Refused = { blamed: null, error: null };

/** The value of a form and its errors: our own, and the server's at the field it names. */
export function useFormValue(field: FormField, typed: Typed, refused: Refused, root: string) {
  const { questions, language } = useTexts();
  const { value, objections } = typedValue(field, typed, fractionMark([language, navigator.language]));
  const own = Object.fromEntries(Object.entries(objections).map(([path, what]) => [path, questions[what]]));
  const path = pathIn(root, refused.blamed);
  const place = path === null ? null : placeOf(field, path);
  const theirs: Record<string, string> = place !== null && refused.error ? { [place]: refused.error } : {};
  return { value, objections, own, theirs, isPlaced: place !== null };
}

/** The rest of a path below its root; null if it is elsewhere. */
function pathIn(root: string, path: string | null): string | null {
  if (path === root) return "";
  return path?.startsWith(`${root}.`) ? path.slice(root.length + 1) : null;
}

/** A form with its own content. */
export function useForm(field: FormField, refused: Refused, root = "data") {
  const [typed, setTyped] = useState<Typed>(() => initialOf(field));
  const [isTried, setTried] = useState(false);
  const { value, objections, own, theirs, isPlaced } = useFormValue(field, typed, refused, root);
  return {
    typed,
    setTyped,
    /** The values as typed. */
    isUntouched: JSON.stringify(typed) === JSON.stringify(initialOf(field)),
    errors: isTried ? { ...theirs, ...own } : theirs,
    /** Errors without a field in the form. */
    rest: isPlaced ? null : refused.error,
    /** Calls back with the value if it is complete. */
    submit(then: (value: unknown) => void) {
      setTried(true);
      if (Object.keys(objections).length === 0) then(value);
    },
  };
}
