// The chat of both pages, as docs/protocols/ai-sdk.md has it.

import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";

const given = new URLSearchParams(window.location.search);
export const kind = given.get("kind");
export const id = given.get("id");
export const api = given.get("api");
export const headers = { "X-Api-Key": given.get("key") };

export async function load() {
  const response = await fetch(`${api}/${encodeURIComponent(id)}`, { headers });
  return response.status === 404 ? [] : response.json();
}

export function useStoredChat(messages) {
  const chat = useChat({
    id,
    messages,
    resume: true,
    transport: new DefaultChatTransport({ api, headers }),
    sendAutomaticallyWhen: (options) =>
      lastAssistantMessageIsCompleteWithToolCalls(options) ||
      lastAssistantMessageIsCompleteWithApprovalResponses(options),
  });
  const stop = () => Promise.all([chat.stop(), fetch(`${api}/${id}/stop`, { method: "POST", headers })]);
  return { ...chat, stop };
}

export function Result({ value }) {
  if (value?.kind === "table") {
    return (
      <table>
        <thead>
          <tr>{value.columns.map((column) => <th key={column.name}>{column.name}</th>)}</tr>
        </thead>
        <tbody>
          {value.rows.map((row) => (
            <tr key={String(row)}>{row.map((cell) => <td key={String(cell)}>{String(cell)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    );
  }
  if (value?.kind === "file_ref") return <a href={value.url}>{value.filename ?? value.name ?? value.url}</a>;
  return value === undefined ? null : <div>{typeof value === "string" ? value : JSON.stringify(value)}</div>;
}
