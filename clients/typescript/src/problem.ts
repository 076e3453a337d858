import type { SpecProblem } from "./responses.js";

/** An error response of the server: RFC 9457, with a stable `code` for programs. */
export class Problem extends Error {
  override readonly name = "Problem";
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  /** The invalid field of the request, if there is one. */
  readonly field?: string;
  /** For the text of an agent system: all errors, with line and column. */
  readonly problems?: readonly SpecProblem[];
  /** Seconds to wait before a retry, if the server sent `Retry-After`. */
  readonly retryAfter?: number;

  constructor(status: number, body: Partial<ProblemBody>, retryAfter?: number) {
    super(body.detail ?? body.title ?? `The server answered with ${status}`);
    this.status = status;
    this.code = body.code ?? "unknown";
    this.title = body.title ?? "";
    this.detail = this.message;
    if (body.field !== undefined) this.field = body.field;
    if (body.problems !== undefined) this.problems = body.problems;
    if (retryAfter !== undefined) this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. True also for status 0, which a custom `fetch` uses for "unreachable". */
  get transient(): boolean {
    return this.status === 0 || this.status >= 500 || this.status === 408 || this.status === 425 || this.status === 429;
  }
}

interface ProblemBody {
  title: string;
  code: string;
  detail: string;
  field: string;
  problems: readonly SpecProblem[];
}

export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => "");
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return new Problem(response.status, bodyOf(text), Number.isFinite(seconds) ? seconds : undefined);
}

/** A response of something else, such as a sign-in page or a proxy that drops headers. Transient. */
export function unexpectedResponse(response: Response): Problem {
  const kind = response.headers.get("content-type") ?? "no content type";
  const detail = `The response (${response.status}, ${kind}) is not from a Stellwerk server; a proxy may be in between.`;
  return new Problem(0, { code: "foreign_answer", detail });
}

/** A proxy may respond with a page of its own. */
function bodyOf(text: string): Partial<ProblemBody> {
  try {
    const value: unknown = JSON.parse(text);
    const fields = typeof value === "object" && value !== null ? Object.entries(value) : [];
    return Object.fromEntries(fields.filter(([name, value]) => name === "problems" || typeof value === "string"));
  } catch {
    return {};
  }
}
