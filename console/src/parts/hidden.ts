/** What is not drawn by itself, and what turns round what stands beside it. */
const UNSEEN = String.raw`[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{DI}\uFFF9-\uFFFB](?<![\t\n])`;
/** Not what makes one emoji of several, or gives it its looks: of that one sees what comes of it. */
const NOT_OF_EMOJI = String.raw`(?<!\p{ExtPict}[\uFE0E\uFE0F])(?<!\p{ExtPict}[\uFE0F\u{1F3FB}-\u{1F3FF}]?\u200D(?=\p{ExtPict}))`;
const HIDDEN = new RegExp(UNSEEN + NOT_OF_EMOJI, "u");
const EACH = new RegExp(HIDDEN, "gu");
const RUNS = new RegExp(`((?:${HIDDEN.source})+)`, "u");

export interface Piece {
  readonly text: string;
  /** The text is the name of what was there. */
  readonly isHidden: boolean;
}

export const hasHidden = (text: string): boolean => HIDDEN.test(text);

/** A text in pieces: what is seen as it is, and between it the names of what is not. */
export function piecesOf(text: string): readonly Piece[] {
  return text
    .split(RUNS)
    .map((piece, index) => ({ text: index % 2 ? [...piece].map(nameOf).join(" ") : piece, isHidden: index % 2 === 1 }))
    .filter((piece) => piece.text !== "");
}

/** Where there is room for a text only. */
export const spelled = (text: string): string => text.replace(EACH, (sign) => `⟨${nameOf(sign)}⟩`);

/** JSON that says the same, without anything that is hidden. */
export const spelledJson = (json: string): string =>
  json.replace(EACH, (sign) => {
    const units = sign.split("").map((unit) => unit.charCodeAt(0));
    return units.map((unit) => `\\u${hex(unit)}`).join("");
  });

const nameOf = (sign: string): string => `U+${hex(sign.codePointAt(0) ?? 0)}`;
const hex = (code: number): string => code.toString(16).toUpperCase().padStart(4, "0");
