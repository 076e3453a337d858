import type { Extension as Tree } from "mdast-util-from-markdown";
import type { Code, Construct, Effects, Extension, State } from "micromark-util-types";
import type {} from "remark-parse";
import type { Processor } from "unified";

declare module "micromark-util-types" {
  interface TokenTypeMap {
    formula: "formula";
  }
}

const BACKSLASH = 92;
const DOLLAR = 36;
const [ROUND, SQUARE] = [40, 91];
const CLOSING = new Map<Code, Code>([
  [ROUND, 41],
  [SQUARE, 93],
  [DOLLAR, DOLLAR],
]);

const isLineEnd = (code: Code): boolean => code === null || code < -2;
const isSpace = (code: Code): boolean => code === 32 || code === -1 || code === -2;

/** Finds the end of a formula, character by character; formulas do not nest. */
function endOf(opening: Code): (code: Code) => "inside" | "end" | "another" {
  const lead = opening === DOLLAR ? DOLLAR : BACKSLASH;
  let led = false;
  return (code) => {
    const found = !led ? "inside" : code === CLOSING.get(opening) ? "end" : code === opening ? "another" : "inside";
    led = !led && code === lead;
    return found;
  };
}

function toNextLine(effects: Effects, code: Code): void {
  effects.enter("lineEnding");
  effects.consume(code);
  effects.exit("lineEnding");
}

/** Turns inline `\(…\)`, `\[…\]` or `$$…$$` into code, with its delimiters. */
const inline: Construct = {
  name: "formula",
  previous: (code) => code !== DOLLAR,
  tokenize(effects, ok, nok) {
    let look = endOf(null);
    let length = 0;
    let isDollar = false;
    return (lead) => {
      isDollar = lead === DOLLAR;
      effects.enter("codeText");
      effects.enter("codeTextData");
      effects.consume(lead);
      return (opening) => {
        if (isDollar ? opening !== DOLLAR : opening !== ROUND && opening !== SQUARE) return nok(opening);
        look = endOf(opening);
        effects.consume(opening);
        return (first) => (isDollar && first === DOLLAR ? nok(first) : inside(first));
      };
    };

    function inside(code: Code): State | undefined {
      if (code === null) return nok(code);
      if (isLineEnd(code)) return lineEnd(code);
      const found = look(code);
      length += 1;
      if (found === "another" || (found === "end" && length === 2)) return nok(code); // `\(\)` is empty
      effects.consume(code);
      return found === "end" ? end : inside;
    }
    function lineEnd(code: Code): State {
      effects.exit("codeTextData");
      toNextLine(effects, code);
      return (next) => {
        effects.enter("codeTextData");
        return inside(next);
      };
    }
    function end(code: Code): State | undefined {
      if (isDollar && code === DOLLAR) return nok(code);
      effects.exit("codeTextData");
      effects.exit("codeText");
      return ok(code);
    }
  },
};

/** Whether a formula continues on the next line: not if that is empty, or part of another list or quote. */
const goesOn: Construct = {
  partial: true,
  tokenize(effects, ok, nok) {
    const isLazy = () => this.parser.lazy[this.now().line];
    const begin = (code: Code): State | undefined => {
      if (isLazy() || isLineEnd(code)) return nok(code);
      if (!isSpace(code)) return ok(code);
      effects.enter("whitespace");
      effects.consume(code);
      effects.exit("whitespace");
      return begin;
    };
    return (code) => {
      toNextLine(effects, code);
      return begin;
    };
  },
};

/** `\[…\]` or `$$…$$` on lines of its own: up to its end or, while it streams, to the end of the text. */
const block: Construct = {
  name: "formula",
  concrete: true,
  tokenize(effects, ok, nok) {
    const isInterrupting = this.interrupt;
    let opening: Code = null;
    let look = endOf(null);
    let isOver = false;
    /** Whether there is text on a line that must be empty in a block formula. */
    let isSentence = false;
    let isFirstLine = true;
    return (lead) => {
      effects.enter("formula");
      effects.enter("codeFlowValue");
      effects.consume(lead);
      return (code) => {
        if (code !== (lead === DOLLAR ? DOLLAR : SQUARE)) return nok(code);
        opening = code;
        look = endOf(code);
        effects.consume(code);
        return inside;
      };
    };

    function inside(code: Code): State | undefined {
      if (isLineEnd(code)) return lineEnd(code);
      isSentence ||= !isSpace(code) && (isOver || opening === DOLLAR);
      if (look(code) === "end" && !isOver) {
        isOver = true;
        isSentence = false;
      }
      effects.consume(code);
      return inside;
    }
    function lineEnd(code: Code): State | undefined {
      effects.exit("codeFlowValue");
      if (isFirstLine && isSentence) return nok(code);
      isFirstLine = false;
      return isOver || isInterrupting || code === null ? end(code) : effects.check(goesOn, nextLine, end)(code);
    }
    function nextLine(code: Code): State | undefined {
      toNextLine(effects, code);
      effects.enter("codeFlowValue");
      return inside;
    }
    function end(code: Code): State | undefined {
      effects.exit("formula");
      return ok(code);
    }
  },
};

const syntax: Extension = {
  text: { [BACKSLASH]: inline, [DOLLAR]: inline },
  flow: { [BACKSLASH]: block, [DOLLAR]: block },
};

const tree: Tree = {
  enter: {
    formula(token) {
      this.enter({ type: "code", lang: "LaTeX", value: "" }, token);
      this.buffer();
    },
  },
  exit: {
    formula(token) {
      const value = this.resume();
      const node = this.stack.at(-1);
      if (node?.type === "code") node.value = value;
      this.exit(token);
    },
  },
};

/** LaTeX as it was written: Markdown would drop its backslashes and read underscores as emphasis. */
export function formulas(this: Processor): void {
  const data = this.data();
  data.micromarkExtensions = [...(data.micromarkExtensions ?? []), syntax];
  data.fromMarkdownExtensions = [...(data.fromMarkdownExtensions ?? []), tree];
}
