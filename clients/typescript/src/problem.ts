import type { SpecProblem } from "./answers.js";

/** What the server said instead of an answer: RFC 9457, with a stable `code` for programs. */
export class Problem extends Error {
  override readonly name = "Problem";
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  /** The field that is to blame, where one is. */
  readonly field?: string;
  /** Of an agent system's text: everything that is wrong with it, and where. */
  readonly problems?: readonly SpecProblem[];
  /** Seconds to wait before it is worth trying again, if the server named a time. */
  readonly retryAfter?: number;

  constructor(status: number, told: Partial<ProblemTold>, retryAfter?: number) {
    super(told.detail ?? told.title ?? `The server answered with ${status}`);
    this.status = status;
    this.code = told.code ?? "unknown";
    this.title = told.title ?? "";
    this.detail = this.message;
    if (told.field !== undefined) this.field = told.field;
    if (told.problems !== undefined) this.problems = told.problems;
    if (retryAfter !== undefined) this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later; so it may if nobody answered, for which a `fetch` of yours may say 0. */
  get passing(): boolean {
    return this.status === 0 || this.status >= 500 || this.status === 408 || this.status === 425 || this.status === 429;
  }
}

interface ProblemTold {
  title: string;
  code: string;
  detail: string;
  field: string;
  problems: readonly SpecProblem[];
}

export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => "");
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return new Problem(response.status, told(text), Number.isFinite(seconds) ? seconds : undefined);
}

/** Somebody in between has answered: a sign-in page, or a proxy that leaves out what it does not know. It may pass. */
export function foreign(response: Response): Problem {
  const kind = response.headers.get("content-type") ?? "no content type";
  const detail = `What answered (${response.status}, ${kind}) is no Stellwerk server, or something is in between.`;
  return new Problem(0, { code: "foreign_answer", detail });
}

/** A proxy in between may answer with a page of its own. */
function told(text: string): Partial<ProblemTold> {
  try {
    const value: unknown = JSON.parse(text);
    const fields = typeof value === "object" && value !== null ? Object.entries(value) : [];
    return Object.fromEntries(fields.filter(([name, said]) => name === "problems" || typeof said === "string"));
  } catch {
    return {};
  }
}
