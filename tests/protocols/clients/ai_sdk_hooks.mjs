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
const { useChatRuntime } = await import("@assistant-ui/react-ai-sdk");

const automatic = (options) =>
  sdk.lastAssistantMessageIsCompleteWithToolCalls(options) ||
  sdk.lastAssistantMessageIsCompleteWithApprovalResponses(options);

const tabs = new Map();

// A page that shows a chat: `kind` is "useChat" or "assistant-ui".
export async function open({ tab, kind, url, id, headers = {}, messages = [] }) {
  const options = {
    id,
    messages,
    transport: new sdk.DefaultChatTransport({ api: url, headers }),
    sendAutomaticallyWhen: automatic,
  };
  const shown = { current: undefined, renders: 0 };
  const Chat = () => {
    const chat = useChat({ ...options, resume: true });
    useEffect(() => {
      shown.current = chat;
      shown.renders += 1;
    });
    return null;
  };
  const Assistant = () => {
    const runtime = useChatRuntime(options);
    useEffect(() => {
      shown.current = runtime;
    });
    return createElement(AssistantRuntimeProvider, { runtime }, null);
  };
  const root = createRoot(page.window.document.body.appendChild(page.window.document.createElement("div")));
  root.render(createElement(kind === "useChat" ? Chat : Assistant));
  tabs.set(tab, { shown, root, kind });
  await until(() => shown.current);
  return null;
}

export async function send({ tab, text }) {
  const { shown, kind } = tabs.get(tab);
  if (kind === "useChat") shown.current.sendMessage({ text });
  else shown.current.thread.append(text);
  return null;
}

// What the page shows once its last text has this in it and it is at rest.
export async function shows({ tab, text }, emit) {
  const { shown, kind } = tabs.get(tab);
  const state = () => (kind === "useChat" ? shown.current : shown.current.thread.getState());
  const last = () => state().messages.at(-1);
  const parts = () => (last()?.role === "assistant" ? last()[kind === "useChat" ? "parts" : "content"] : []);
  const said = () => parts().filter((part) => part.type === "text").map((part) => part.text).join("");
  await until(() => said().length > 0);
  emit("text", said());
  await until(() => (kind === "useChat" ? state().status === "ready" : !state().isRunning) && said().includes(text));
  return { text: said(), messages: state().messages.length, types: parts().map((part) => part.type) };
}

export async function close({ tab }) {
  tabs.get(tab).root.unmount();
  return null;
}

async function until(what) {
  while (!what()) await new Promise((resolve) => setTimeout(resolve, 10));
}
