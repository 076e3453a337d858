import type { StoredFile } from "@stellwerk/client";

export interface Sending {
  key: number;
  name: string;
  size: number;
  /** From 0 to 1. */
  part: number;
  stored?: StoredFile;
  /** Why the server rejected it. */
  refused?: unknown;
}

export type Step =
  | { what: "added"; files: readonly Sending[] }
  | { what: "sent"; key: number; part: number }
  | { what: "stored"; key: number; stored: StoredFile }
  | { what: "refused"; key: number; why: unknown }
  | { what: "removed"; key: number }
  | { what: "cleared" };

/** Files being uploaded. Identical files are one file on the server, and also here. */
export function uploads(files: readonly Sending[], step: Step): readonly Sending[] {
  switch (step.what) {
    case "added":
      return [...files, ...step.files];
    case "sent":
      return changed(files, step.key, { part: step.part });
    case "stored": {
      const twice = files.some(({ key, stored }) => key !== step.key && stored?.id === step.stored.id);
      return twice ? without(files, step.key) : changed(files, step.key, { part: 1, stored: step.stored });
    }
    case "refused":
      return changed(files, step.key, { refused: step.why });
    case "removed":
      return without(files, step.key);
    case "cleared":
      return [];
  }
}

export const isUnderWay = ({ stored, refused }: Sending): boolean => stored === undefined && refused === undefined;

const without = (files: readonly Sending[], key: number) => files.filter((file) => file.key !== key);

const changed = (files: readonly Sending[], key: number, news: Partial<Sending>) =>
  files.map((file) => (file.key === key ? { ...file, ...news } : file));
