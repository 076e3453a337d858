import type { en } from "./en";

/** The shape of the English dictionary: texts and functions that return texts. */
type Shape<T> = T extends string
  ? string
  : T extends (...args: infer A) => string
    ? (...args: A) => string
    : { readonly [K in keyof T]: Shape<T[K]> };

export type Texts = Shape<typeof en>;
