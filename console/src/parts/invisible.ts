/** Invisible characters and direction marks. */
const UNSEEN = String.raw`[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{DI}\uFFF9-\uFFFB](?<![\t\n])`;
/** Except joiners and selectors inside an emoji, which have a visible effect. */
const NOT_OF_EMOJI = String.raw`(?<!\p{ExtPict}[\uFE0E\uFE0F])(?<!\p{ExtPict}[\uFE0F\u{1F3FB}-\u{1F3FF}]?\u200D(?=\p{ExtPict}))`;
const HIDDEN = new RegExp(UNSEEN + NOT_OF_EMOJI, "u");
const EACH = new RegExp(HIDDEN, "gu");
const RUNS = new RegExp(`((?:${HIDDEN.source})+)`, "u");

export interface Piece {
  readonly text: string;
  /** The text is the name of an invisible character. */
  readonly isHidden: boolean;
}

export const hasHidden = (text: string): boolean => HIDDEN.test(text);

/** Splits a text into visible pieces and names of invisible characters. */
export function piecesOf(text: string): readonly Piece[] {
  return text
    .split(RUNS)
    .map((piece, index) => ({ text: index % 2 ? [...piece].map(nameOf).join(" ") : piece, isHidden: index % 2 === 1 }))
    .filter((piece) => piece.text !== "");
}

/** As plain text. */
export const spelled = (text: string): string => text.replace(EACH, (sign) => `⟨${nameOf(sign)}⟩`);

/** Equivalent JSON with all invisible characters escaped. */
export const spelledJson = (json: string): string =>
  json.replace(EACH, (sign) => {
    const units = sign.split("").map((unit) => unit.charCodeAt(0));
    return units.map((unit) => `\\u${hex(unit)}`).join("");
  });

const nameOf = (sign: string): string => `U+${hex(sign.codePointAt(0) ?? 0)}`;
const hex = (code: number): string => code.toString(16).toUpperCase().padStart(4, "0");
