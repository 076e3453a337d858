import { Problem, type SpecProblem } from "@stellwerk/client";
import { useEffect, useState } from "react";
import { checkSystem } from "../../server/queries";
import type { System } from "../../server/types";

const PAUSE = 400;

/** The server's check of a text. */
export interface Verdict {
  checking: boolean;
  system: System | null;
  mistakes: readonly SpecProblem[];
  /** Not about the text: the server is unreachable, or rejects the request. */
  error: unknown;
}

const UNKNOWN: Verdict = { checking: true, system: null, mistakes: [], error: null };

/** Checks the text whenever typing pauses; outdated responses are ignored. */
export function useCheck(text: string): Verdict {
  const [verdict, setVerdict] = useState(UNKNOWN);
  useEffect(() => {
    const asked = new AbortController();
    setVerdict((before) => ({ ...before, checking: true }));
    const wait = setTimeout(async () => {
      const found = await judge(text, asked.signal);
      if (!asked.signal.aborted) setVerdict(found);
    }, PAUSE);
    return () => {
      clearTimeout(wait);
      asked.abort();
    };
  }, [text]);
  return verdict;
}

async function judge(text: string, signal: AbortSignal): Promise<Verdict> {
  try {
    return { ...UNKNOWN, checking: false, system: await checkSystem(text, signal) };
  } catch (error) {
    const mistakes = error instanceof Problem ? (error.problems ?? []) : [];
    return { ...UNKNOWN, checking: false, mistakes, error: mistakes.length ? null : error };
  }
}
