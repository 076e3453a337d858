// Hooks of React in a page without a browser: `useChat` of the AI SDK, and the runtime that assistant-ui makes of it.

import { JSDOM } from "jsdom";

const page = new JSDOM("<!doctype html><div id=root></div>", { url: "http://127.0.0.1/" });
for (const name of ["window", "document", "navigator", "localStorage", "HTMLElement", "Node", "MutationObserver", "ResizeObserver"]) {
  if (page.window[name] && !(name in globalThis)) globalThis[name] = page.window[name];
}
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

const { createElement, useEffect } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useChat } = await import("@ai-sdk/react");
const sdk = await import("ai");
const { AssistantRuntimeProvider } = await import("@assistant-ui/react");
const { useAISDKRuntime } = await import("@assistant-ui/react-ai-sdk");

const automatic = (options) =>
  sdk.lastAssistantMessageIsCompleteWithToolCalls(options) ||
  sdk.lastAssistantMessageIsCompleteWithApprovalResponses(options);

const tabs = new Map();

// As docs/protocols/assistant-ui.md has it: stop ends the run, not only the request.
const stopping = (chat, url, headers) => ({
  ...chat,
  stop: () => Promise.all([chat.stop(), fetch(`${url}/${chat.id}/stop`, { method: "POST", headers })]),
});

// A page that shows a chat: `kind` is "useChat" or "assistant-ui". With `load`, it has the messages of the server first.
export async function open({ tab, kind, url, id, headers = {}, load = false }) {
  const loaded = load ? await fetch(`${url}/${id}`, { headers }) : undefined;
  let asked = false;
  const watched = async (address, init) => {
    const response = await fetch(address, init);
    asked = true;
    return response;
  };
  const options = {
    id,
    messages: loaded ? await loaded.json() : [],
    transport: new sdk.DefaultChatTransport({ api: url, headers, fetch: watched }),
    sendAutomaticallyWhen: automatic,
    resume: true,
  };
  const page = { kind, chat: undefined, runtime: undefined };
  const Chat = () => {
    const chat = stopping(useChat(options), url, headers);
    useEffect(() => {
      page.chat = chat;
    });
    return null;
  };
  const Assistant = () => {
    const chat = stopping(useChat(options), url, headers);
    const runtime = useAISDKRuntime(chat);
    useEffect(() => {
      Object.assign(page, { chat, runtime });
    });
    return createElement(AssistantRuntimeProvider, { runtime }, null);
  };
  page.root = createRoot(window.document.body.appendChild(window.document.createElement("div")));
  page.root.render(createElement(kind === "useChat" ? Chat : Assistant));
  tabs.set(tab, page);
  await until(() => asked && page.chat.status !== "submitted"); // whether there is an answer to follow
  return null;
}

// What a user sees: the texts, the calls of tools and the error of the last message.
function view({ kind, chat, runtime }) {
  if (kind === "useChat") {
    const parts = chat.messages.at(-1)?.parts ?? [];
    const tools = parts.filter((part) => part.type === "dynamic-tool");
    return {
      running: chat.status === "submitted" || chat.status === "streaming",
      roles: chat.messages.map((message) => message.role),
      text: textOf(parts),
      types: parts.map((part) => part.type),
      tools: tools.map((part) => ({
        id: part.toolCallId,
        name: part.toolName,
        args: part.input,
        result: part.output ?? null,
        approval: part.approval ?? null,
      })),
      error: chat.error?.message ?? null,
    };
  }
  const { messages, isRunning } = runtime.thread.getState();
  const last = messages.at(-1);
  const parts = last?.content ?? [];
  return {
    running: isRunning,
    roles: messages.map((message) => message.role),
    text: textOf(parts),
    types: parts.map((part) => part.type),
    tools: parts
      .filter((part) => part.type === "tool-call")
      .map((part) => ({
        id: part.toolCallId,
        name: part.toolName,
        args: part.args,
        result: part.result ?? null,
        approval: part.approval ?? null,
      })),
    error: last?.status?.reason === "error" ? String(last.status.error?.message ?? last.status.error) : null,
  };
}

const textOf = (parts) =>
  parts
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("");

const part = ({ runtime }, toolCallId) => runtime.thread.getMessageByIndex(-1 + runtime.thread.getState().messages.length).getMessagePartByToolCallId(toolCallId);

export async function send({ tab, text }, emit) {
  const page = tabs.get(tab);
  if (page.kind === "useChat") page.chat.sendMessage({ text });
  else page.runtime.thread.append(text);
  return rest(page, emit);
}

export async function answer({ tab, id, name, output }) {
  const page = tabs.get(tab);
  if (page.kind === "useChat") page.chat.addToolOutput({ tool: name, toolCallId: id, output });
  else part(page, id).addToolResult(output);
  return rest(page);
}

export async function approve({ tab, id, approval, approved, decisions }) {
  const page = tabs.get(tab);
  const response = { id: approval, approved, options: { body: { decisions } } };
  if (page.kind === "useChat" || decisions) page.chat.addToolApprovalResponse(response);
  else part(page, id).respondToToolApproval({ approved });
  return rest(page);
}

export async function stop({ tab }) {
  const page = tabs.get(tab);
  if (page.kind === "useChat") page.chat.stop();
  else page.runtime.thread.cancelRun();
  return rest(page);
}

// A tab that was opened in mid-run, until it is at rest.
export const shows = ({ tab }, emit) => rest(tabs.get(tab), emit);

// Until the last message has this text.
export async function says({ tab, text }) {
  await until(() => view(tabs.get(tab)).text === text);
  return view(tabs.get(tab));
}

// Until the page is at rest; `emit("text")` once there is an answer. Automatic requests begin some ticks later.
async function rest(page, emit) {
  const before = page.chat.messages.length;
  await until(() => view(page).running || page.chat.messages.length > before, 1000);
  for (let idle = 0; idle < 10; idle = view(page).running ? 0 : idle + 1) {
    const { text, roles } = view(page);
    if (emit && text && roles.at(-1) === "assistant") {
      emit("text", text);
      emit = undefined;
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return view(page);
}

export async function close({ tab }) {
  tabs.get(tab).root.unmount();
  return null;
}

async function until(what, most = 60_000) {
  for (const end = Date.now() + most; !what() && Date.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
