import type { Accepted, NewAnswer, NewMessage, Stopped } from "@stellwerk/client";
import { requestJson } from "./request";
import type { Session } from "./types";

const of = (sid: string, what = "") => `/sessions/${encodeURIComponent(sid)}${what}`;

export const sendMessage = (sid: string, message: NewMessage, once: string) =>
  requestJson<Accepted>(of(sid, "/messages"), { method: "POST", json: message, once });
export const sendAnswer = (sid: string, answer: NewAnswer, once: string) =>
  requestJson<Accepted>(of(sid, "/answers"), { method: "POST", json: answer, once });
export const stopRun = (sid: string) => requestJson<Stopped>(of(sid, "/stop"), { method: "POST", json: {} });
export const answerAnew = (sid: string, once: string) =>
  requestJson<Accepted>(of(sid, "/regenerate"), { method: "POST", once });
export const forkSession = (sid: string, position: number) =>
  requestJson<Session>(of(sid, "/fork"), { method: "POST", json: { position } });
export const deleteSession = (sid: string) => requestJson<void>(of(sid), { method: "DELETE" });

/** An idempotency key. Not randomUUID, which exists only over HTTPS. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
